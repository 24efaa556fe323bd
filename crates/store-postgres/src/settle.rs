//! Settles: writes the results of a batch of attempts, with all that derives from them, in one round trip.

mod columns;
mod late;

use std::collections::HashSet;

use posthaste_domain::{LeaseToken, WorkerId};
use posthaste_store::{SettleResult, Settlement, StoreError};
use tokio_postgres::types::{ToSql, Type};

use crate::StoreState;
use crate::outstanding::CompletedClaims;
use crate::session::{Session, Sql};
use columns::SettlementColumns;

/// Writes the results of attempts. Finds each event in the queue by key, and applies the result only if the lease token
/// still matches.
///
/// An event that reaches a terminal state moves from the queue to the terminal events; a retry gets a new queue
/// position. Attempt records, counts, notices and the state of destinations derive from the changed rows, so a
/// settlement whose lease was lost changes none of them. Retries of one batch get distinct positions. The rows of
/// completed claims are deleted.
pub(crate) static SETTLE: Sql = Sql {
    text: "
WITH completed AS (
    DELETE FROM app.webhook_queue q
    USING unnest(
        $1::bigint[], $2::uuid[], $3::integer[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::smallint[],
        $9::text[], $10::text[], $11::text[], $12::bigint[], $13::smallint[], $14::integer[]
    ) AS i (
        key, token, attempt, failure_kind, last_error, started_us, duration_us, http_status,
        error_class, excerpt, trigger, pause_us, health, n
    )
    WHERE q.id = i.key AND q.lease_token = i.token
    RETURNING i.*, q.destination_id, q.attempts AS attempts_before, q.claims, q.manual_last_action,
              q.manual_last_actor, q.manual_last_at,
              app.webhook_now() - i.started_us * interval '1 microsecond' AS started_at
),
retried AS (
    UPDATE app.webhook_queue q
    SET attempts = i.attempt,
        lost_leases = 0,
        last_attempted_at = app.webhook_now() - i.started_us * interval '1 microsecond',
        last_error = i.last_error,
        next_attempt_at = app.webhook_now() + i.retry_us * interval '1 microsecond',
        queue_position = app.webhook_retry_position(app.webhook_now() + i.retry_us * interval '1 microsecond') + i.n,
        updated_at = app.webhook_now(),
        lease_until = NULL, lease_token = NULL, lease_claim = NULL
    FROM unnest(
        $15::bigint[], $16::uuid[], $17::integer[], $18::bigint[], $19::text[], $20::bigint[], $21::bigint[],
        $22::smallint[], $23::text[], $24::text[], $25::text[], $26::bigint[], $27::smallint[], $28::integer[]
    ) AS i (
        key, token, attempt, retry_us, last_error, started_us, duration_us,
        http_status, error_class, excerpt, trigger, pause_us, health, n
    )
    WHERE q.id = i.key AND q.lease_token = i.token
    RETURNING i.*, q.destination_id, q.last_attempted_at AS started_at
),
terminal_events AS (
    INSERT INTO app.webhook_terminal_events (
        id, updated_at, last_attempted_at, attempts, claims, lost_leases, failure_kind, last_error,
        manual_last_action, manual_last_actor, manual_last_at
    )
    SELECT key, app.webhook_now(), started_at, attempt, claims, 0, failure_kind, last_error,
           manual_last_action, manual_last_actor, manual_last_at
    FROM completed
),
attempts AS (
    INSERT INTO app.webhook_attempts (
        event_key, destination_id, lease_token, recorded_at, started_at, duration_us, attempt, http_status, trigger,
        worker_id, error_class, excerpt
    )
    SELECT key, destination_id, token, app.webhook_now(), started_at, duration_us, attempt, http_status, trigger,
           $29, error_class, excerpt
    FROM completed
    UNION ALL
    SELECT key, destination_id, token, app.webhook_now(), started_at, duration_us, attempt, http_status, trigger,
           $29, error_class, excerpt
    FROM retried
),
counts AS (
    INSERT INTO app.webhook_counts (pending, retrying, delivered, failed)
    SELECT -c.total, r.first_retries - c.retries, c.delivered, c.total - c.delivered
    FROM (
        SELECT count(*) AS total, count(*) FILTER (WHERE attempts_before > 0) AS retries,
               count(*) FILTER (WHERE failure_kind IS NULL) AS delivered
        FROM completed
    ) c, (
        SELECT count(*) FILTER (WHERE attempt = 1) AS first_retries FROM retried
    ) r
),
notices AS (
    INSERT INTO app.webhook_notices (at, event_keys, failure_kinds, attempts)
    SELECT app.webhook_now(), array_agg(o.key), array_agg(o.failure_kind), array_agg(o.attempt)
    FROM (SELECT c.key, c.failure_kind, c.attempt FROM completed c ORDER BY c.n) o
    HAVING count(*) > 0
),
destination_health AS MATERIALIZED (
    SELECT a.destination_id, max(a.pause_us) AS pause_us,
           max(a.n) FILTER (WHERE a.health > 0) AS last_healthy,
           max(a.n) FILTER (WHERE a.health < 0) AS last_unhealthy
    FROM (
        SELECT destination_id, pause_us, health, n FROM completed
        UNION ALL
        SELECT destination_id, pause_us, health, n FROM retried
    ) a
    GROUP BY a.destination_id
    ORDER BY a.destination_id
),
destinations AS (
    UPDATE app.webhook_destinations d
    SET paused_until = greatest(
            d.paused_until, app.webhook_now() + h.pause_us * interval '1 microsecond'
        ),
        receiver_paused_until = greatest(
            d.receiver_paused_until, app.webhook_now() + h.pause_us * interval '1 microsecond'
        ),
        receiver_paused_at = CASE
            WHEN h.pause_us IS NULL OR d.receiver_paused_until > app.webhook_now() THEN d.receiver_paused_at
            ELSE app.webhook_now()
        END,
        failing_since = CASE
            WHEN h.last_healthy > coalesce(h.last_unhealthy, -1) THEN NULL
            WHEN h.last_unhealthy > h.last_healthy THEN app.webhook_now()
            WHEN h.last_unhealthy IS NOT NULL THEN coalesce(d.failing_since, app.webhook_now())
            ELSE d.failing_since
        END
    FROM destination_health h
    WHERE d.id = h.destination_id
          AND (h.pause_us IS NOT NULL
               OR (h.last_healthy IS NOT NULL AND (d.failing_since IS NOT NULL OR h.last_unhealthy > h.last_healthy))
               OR (h.last_unhealthy IS NOT NULL AND d.failing_since IS NULL))
),
completed_claims AS (
    DELETE FROM app.webhook_claims c
    USING unnest($30::uuid[], $31::integer[]) AS f (id, leases)
    WHERE c.id = f.id AND cardinality(c.event_keys) = f.leases
)
SELECT n FROM completed UNION ALL SELECT n FROM retried",
    types: &[
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT2_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT,
        Type::UUID_ARRAY,
        Type::INT4_ARRAY,
    ],
};

/// Writes a batch of settlements in one commit and returns, in order, whether each was applied. Late results, which are rare,
/// get a second commit: `settle/late.rs` says why.
pub(crate) async fn settle(
    store: &StoreState,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<SettleResult>, StoreError> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let tokens = || batch.iter().map(|settlement| settlement.transition.token());
    let completed_claims = store.outstanding.completed_by(tokens());
    let written = store.sessions.dispatch.with(async |session| {
        let applied = apply(session, Scope::OwnTransaction, worker, batch, &completed_claims).await?;
        let replayed = late::record(session, Scope::OwnTransaction, worker, batch, &applied).await?;
        Ok((applied, replayed))
    });
    let (applied, replayed) = written.await?;
    store.outstanding.remove(tokens());
    store.notice_signal.notify();
    let mut unreported = applied.clone();
    let result = |settlement: &Settlement| {
        let token = settlement.transition.token();
        if unreported.remove(&token) {
            SettleResult::Applied
        } else if applied.contains(&token) || replayed.contains(&token) {
            // Settled before, in this batch or in an earlier one.
            SettleResult::Replayed
        } else {
            SettleResult::Stale
        }
    };
    Ok(batch.iter().map(result).collect())
}

/// Whether a statement gets a transaction of its own, or runs in one that the caller has begun.
#[derive(Clone, Copy)]
enum Scope {
    OwnTransaction,
    OpenTransaction,
}

/// Writes a settlement in a transaction that the caller has begun, then runs the statements for late results as if it had
/// not been applied: they find that it has been.
pub(crate) async fn settle_in_transaction(
    session: &Session,
    worker: &WorkerId,
    settlement: Settlement,
) -> Result<(), tokio_postgres::Error> {
    let (batch, scope) = ([settlement], Scope::OpenTransaction);
    apply(session, scope, worker, &batch, &CompletedClaims::default()).await?;
    late::record(session, scope, worker, &batch, &HashSet::new()).await.map(drop)
}

/// Writes the settlements and returns the lease tokens of those that were applied. Like every statement that locks
/// several rows, it locks them in key order, which rules out deadlocks.
async fn apply(
    session: &Session,
    scope: Scope,
    worker: &WorkerId,
    batch: &[Settlement],
    completed_claims: &CompletedClaims,
) -> Result<HashSet<LeaseToken>, tokio_postgres::Error> {
    let mut seen = HashSet::with_capacity(batch.len());
    let mut distinct: Vec<(usize, &Settlement)> =
        batch.iter().enumerate().filter(|(_, it)| seen.insert(it.transition.token())).collect();
    distinct.sort_by_key(|(_, settlement)| settlement.transition.key());
    let (mut completed, mut retried) = (SettlementColumns::default(), SettlementColumns::default());
    for (batch_index, settlement) in distinct {
        let columns =
            if settlement.transition.retry_after().is_some() { &mut retried } else { &mut completed };
        columns.push(batch_index, settlement);
    }
    let mut params = Vec::with_capacity(SETTLE.types.len());
    params.extend(completed.completed_params());
    params.extend(retried.retried_params());
    let worker = worker.as_str();
    let common: [&(dyn ToSql + Sync); 3] =
        [&worker, &completed_claims.claims, &completed_claims.lease_counts];
    params.extend(common);
    let rows = match scope {
        Scope::OwnTransaction => session.transact(&SETTLE, &params).await?,
        Scope::OpenTransaction => session.query(&SETTLE, &params).await?,
    };
    rows.iter()
        .map(|row| {
            let index = usize::try_from(row.try_get::<_, i32>(0)?).expect("batch indexes are not negative");
            Ok(batch[index].transition.token())
        })
        .collect()
}
