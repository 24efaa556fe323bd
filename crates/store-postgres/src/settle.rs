//! Writing what attempts led to: the whole batch, with everything that goes with it, in one round trip.

use std::collections::HashSet;

use posthaste_domain::{ErrorClass, FailureKind, Health, LeaseToken, WorkerId};
use posthaste_store::{Settled, Settlement, StoreError};
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::Shared;
use crate::granted::Finished;
use crate::moment::micros;
use crate::session::{Session, Sql};

/// The queue by key, fenced by token. What comes to its end moves from the queue to the endings, what is retried goes
/// to its new place in line. Attempt records, counts, notices and what is known of destinations all derive from the
/// rows that were changed; a lease that was lost changes none of them. Retries of one batch get turns of their own, and
/// claims that have no lease left are forgotten.
pub(crate) static SETTLE: Sql = Sql {
    text: "
WITH ended AS (
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
        turn = app.webhook_turn_at(app.webhook_now() + i.retry_us * interval '1 microsecond') + i.n,
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
endings AS (
    INSERT INTO app.webhook_endings (
        id, updated_at, last_attempted_at, attempts, claims, lost_leases, failure_kind, last_error,
        manual_last_action, manual_last_actor, manual_last_at
    )
    SELECT key, app.webhook_now(), started_at, attempt, claims, 0, failure_kind, last_error,
           manual_last_action, manual_last_actor, manual_last_at
    FROM ended
),
attempts AS (
    INSERT INTO app.webhook_attempts (
        event_key, destination_id, token, recorded_at, started_at, duration_us, attempt, http_status, trigger,
        worker, error_class, excerpt
    )
    SELECT key, destination_id, token, app.webhook_now(), started_at, duration_us, attempt, http_status, trigger,
           $29, error_class, excerpt
    FROM ended
    UNION ALL
    SELECT key, destination_id, token, app.webhook_now(), started_at, duration_us, attempt, http_status, trigger,
           $29, error_class, excerpt
    FROM retried
),
counted AS (
    INSERT INTO app.webhook_counts (pending, retrying, delivered, failed)
    SELECT -e.all_of_them, r.first_retries - e.retries, e.delivered, e.all_of_them - e.delivered
    FROM (
        SELECT count(*) AS all_of_them, count(*) FILTER (WHERE attempts_before > 0) AS retries,
               count(*) FILTER (WHERE failure_kind IS NULL) AS delivered
        FROM ended
    ) e, (
        SELECT count(*) FILTER (WHERE attempt = 1) AS first_retries FROM retried
    ) r
),
notices AS (
    INSERT INTO app.webhook_notices (at, event_keys, delivered, attempts)
    SELECT app.webhook_now(), array_agg(o.key), array_agg(o.failure_kind IS NULL), array_agg(o.attempt)
    FROM (SELECT e.key, e.failure_kind, e.attempt FROM ended e ORDER BY e.n) o
    HAVING count(*) > 0
),
heard AS MATERIALIZED (
    SELECT a.destination_id, max(a.pause_us) AS pause_us,
           max(a.n) FILTER (WHERE a.health > 0) AS answered, max(a.n) FILTER (WHERE a.health < 0) AS failed
    FROM (
        SELECT destination_id, pause_us, health, n FROM ended
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
        failing_since = CASE
            WHEN h.answered > coalesce(h.failed, -1) THEN NULL
            WHEN h.failed > h.answered THEN app.webhook_now()
            WHEN h.failed IS NOT NULL THEN coalesce(d.failing_since, app.webhook_now())
            ELSE d.failing_since
        END
    FROM heard h
    WHERE d.id = h.destination_id
          AND (h.pause_us IS NOT NULL
               OR (h.answered IS NOT NULL AND (d.failing_since IS NOT NULL OR h.failed > h.answered))
               OR (h.failed IS NOT NULL AND d.failing_since IS NULL))
),
forgotten AS (
    DELETE FROM app.webhook_claims c
    USING unnest($30::uuid[], $31::integer[]) AS f (id, leases)
    WHERE c.id = f.id AND cardinality(c.keys) = f.leases
)
SELECT n FROM ended UNION ALL SELECT n FROM retried",
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

/// Which outcomes are on record already. Asked only for those that were not applied; the index is by event.
static RECORDED: Sql = Sql {
    text: "
SELECT a.token
FROM unnest($1::bigint[], $2::uuid[]) AS i (key, token)
JOIN app.webhook_attempts a ON a.event_key = i.key AND a.token = i.token",
    types: &[Type::INT8_ARRAY, Type::UUID_ARRAY],
};

#[derive(Default)]
struct Columns<'a> {
    keys: Vec<i64>,
    tokens: Vec<Uuid>,
    attempts: Vec<i32>,
    retries: Vec<Option<i64>>,
    failure_kinds: Vec<Option<&'a str>>,
    last_errors: Vec<Option<String>>,
    started: Vec<i64>,
    durations: Vec<i64>,
    http_statuses: Vec<Option<i16>>,
    error_classes: Vec<Option<&'a str>>,
    excerpts: Vec<&'a str>,
    triggers: Vec<&'a str>,
    pauses: Vec<Option<i64>>,
    healths: Vec<i16>,
    /// The settlement's place in its batch.
    places: Vec<i32>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, place: usize, settlement: &'a Settlement) {
        let transition = &*settlement.transition;
        let outcome = transition.outcome();
        self.keys.push(transition.key().0);
        self.tokens.push(transition.token().as_uuid());
        self.attempts.push(i32::try_from(transition.attempt()).unwrap_or(i32::MAX));
        self.retries.push(transition.retry_after().map(micros));
        self.failure_kinds.push(transition.failure_kind().map(FailureKind::as_str));
        self.last_errors.push(transition.last_error());
        self.started.push(micros(settlement.ended_ago.saturating_add(transition.duration())));
        self.durations.push(micros(transition.duration()));
        self.http_statuses.push(outcome.http_status().and_then(|status| i16::try_from(status).ok()));
        self.error_classes.push(outcome.error_class().map(ErrorClass::as_str));
        self.excerpts.push(outcome.excerpt().as_str());
        self.triggers.push(transition.trigger().as_str());
        self.pauses.push(transition.pause().map(micros));
        self.healths.push(match outcome.health() {
            Health::Healthy => 1,
            Health::Unhealthy => -1,
            Health::Unknown => 0,
        });
        self.places.push(i32::try_from(place).expect("a batch is small"));
    }
}

pub(crate) async fn settle(
    store: &Shared,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Result<Vec<Settled>, StoreError> {
    if batch.is_empty() {
        return Ok(Vec::new());
    }
    let tokens = || batch.iter().map(|settlement| settlement.transition.token());
    let finished = store.granted.finished_by(tokens());
    let settled = store.sessions.dispatch.with(async |session| {
        let applied = apply(session, worker, batch, &finished).await?;
        let recorded = recorded(session, batch, &applied).await?;
        Ok((applied, recorded))
    });
    let (applied, recorded) = settled.await?;
    store.granted.end(tokens());
    store.notices.unplaced();
    let mut first = applied.clone();
    let answer = |settlement: &Settlement| {
        let token = settlement.transition.token();
        match () {
            () if first.remove(&token) => Settled::Applied,
            // A second time in this batch, or in an earlier one.
            () if applied.contains(&token) || recorded.contains(&token) => Settled::Replayed,
            () => Settled::Stale,
        }
    };
    Ok(batch.iter().map(answer).collect())
}

/// The tokens whose outcome was written. Rows are locked in the order of their keys, whoever locks several: so nobody
/// waits in a circle.
async fn apply(
    session: &Session,
    worker: &WorkerId,
    batch: &[Settlement],
    finished: &Finished,
) -> Result<HashSet<LeaseToken>, tokio_postgres::Error> {
    let mut seen = HashSet::with_capacity(batch.len());
    let mut once: Vec<(usize, &Settlement)> =
        batch.iter().enumerate().filter(|(_, it)| seen.insert(it.transition.token())).collect();
    once.sort_by_key(|(_, settlement)| settlement.transition.key());
    let (mut ended, mut retried) = (Columns::default(), Columns::default());
    for (place, settlement) in once {
        let columns = if settlement.transition.retry_after().is_some() { &mut retried } else { &mut ended };
        columns.push(place, settlement);
    }
    let (e, r) = (&ended, &retried);
    let rows = session
        .transact(
            &SETTLE,
            &[
                &e.keys,
                &e.tokens,
                &e.attempts,
                &e.failure_kinds,
                &e.last_errors,
                &e.started,
                &e.durations,
                &e.http_statuses,
                &e.error_classes,
                &e.excerpts,
                &e.triggers,
                &e.pauses,
                &e.healths,
                &e.places,
                &r.keys,
                &r.tokens,
                &r.attempts,
                &r.retries,
                &r.last_errors,
                &r.started,
                &r.durations,
                &r.http_statuses,
                &r.error_classes,
                &r.excerpts,
                &r.triggers,
                &r.pauses,
                &r.healths,
                &r.places,
                &worker.as_str(),
                &finished.claims,
                &finished.leases,
            ],
        )
        .await?;
    rows.iter()
        .map(|row| {
            let place = usize::try_from(row.try_get::<_, i32>(0)?).expect("places are not negative");
            Ok(batch[place].transition.token())
        })
        .collect()
}

/// Of what was not applied, the tokens that have their outcome since before.
async fn recorded(
    session: &Session,
    batch: &[Settlement],
    applied: &HashSet<LeaseToken>,
) -> Result<HashSet<LeaseToken>, tokio_postgres::Error> {
    let (keys, tokens): (Vec<i64>, Vec<Uuid>) = batch
        .iter()
        .map(|settlement| &settlement.transition)
        .filter(|transition| !applied.contains(&transition.token()))
        .map(|transition| (transition.key().0, transition.token().as_uuid()))
        .unzip();
    if keys.is_empty() {
        return Ok(HashSet::new());
    }
    let rows = session.transact(&RECORDED, &[&keys, &tokens]).await?;
    rows.iter().map(|row| Ok(LeaseToken::from_uuid(row.try_get(0)?))).collect()
}
