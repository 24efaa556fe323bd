//! Statements that grant leases, and the execution of a claim plan.

use bytes::Bytes;
use posthaste_domain::{
    DestinationId, DestinationUrl, EventId, EventKey, Lease, LeaseToken, MessageId, Trigger,
};
use posthaste_store::{ClaimRequest, ManualAction};
use tokio_postgres::Row;
use tokio_postgres::types::Type;
use uuid::Uuid;

use crate::claimable::{ClaimBudget, ClaimPlan, ClaimableIndex, RangeClaim};
use crate::convert::{PgTimestamp, micros, unsigned};
use crate::expiry_check::reschedule_expiry_checks;
use crate::session::{Session, Sql};

/// Builds a statement that grants leases on the rows of the CTE `picked` (n, url, lost_claim, row_ctid) and writes the
/// claim's own row. `$picked` defines that CTE; `$paused` appends rows that report paused destinations.
///
/// `picked` locks its rows, so their ctid is stable until the update. No indexed column changes, so a lease writes no
/// index entry. $1 is the claim's id, $2 the owner, $3 the length of a lease; the parameters of `$picked` begin at $4.
macro_rules! grant_leases {
    ($picked:literal, $paused:literal) => {
        concat!(
            "
WITH ",
            $picked,
            ",
granted AS (
    UPDATE app.webhook_queue q
    SET claims = q.claims + 1,
        lost_leases = q.lost_leases + (p.lost_claim IS NOT NULL)::integer,
        updated_at = app.webhook_now(),
        lease_until = app.webhook_now() + $3 * interval '1 microsecond',
        lease_token = gen_random_uuid(),
        lease_claim = $1
    FROM picked p
    WHERE q.ctid = p.row_ctid
    RETURNING p.n, p.url, p.lost_claim, q.id, q.queue_position, q.lease_token, q.attempts, q.manual_last_action,
              q.next_attempt_at
),
claim AS (
    INSERT INTO app.webhook_claims AS c (id, expiry_check_at, lease_us, owner, event_keys)
    SELECT $1, app.webhook_now() + $3 * interval '1 microsecond', $3, $2, array_agg(g.id)
    FROM granted g
    HAVING count(*) > 0
    ON CONFLICT (id) DO UPDATE
    SET event_keys = ARRAY(SELECT DISTINCT unnest(c.event_keys || excluded.event_keys)), expiry_check_at = least(c.expiry_check_at, excluded.expiry_check_at)
)
SELECT g.n, g.queue_position, g.id, g.lease_token, e.event_id, e.message_id, e.destination_id, g.url, e.event_type,
       m.content_type, m.payload, m.traceparent, g.attempts, e.max_attempts, g.manual_last_action,
       g.next_attempt_at, app.webhook_now(), g.lost_claim
FROM granted g
JOIN app.webhook_events e ON e.id = g.id
JOIN app.webhook_messages m ON m.id = e.message_id",
            $paused
        )
    };
}

/// Grants leases within one index range per destination, by webhook_queue_destination_position. Skips rows that
/// another claim has locked. Returns a row without an event for each paused destination, with the end of its pause. A
/// pause is read again after five seconds at the latest, because an operator may have ended it.
pub(super) static GRANT_RANGES: Sql = Sql {
    text: grant_leases!(
        "requested AS MATERIALIZED (
    SELECT r.n, r.destination_id, r.low, r.high, r.rows_max, d.url, d.paused_until
    FROM unnest($4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[])
         WITH ORDINALITY AS r (destination_id, low, high, rows_max, n)
    JOIN app.webhook_destinations d ON d.id = r.destination_id
),
picked AS MATERIALIZED (
    SELECT r.n, r.url, NULL::uuid AS lost_claim, q.row_ctid
    FROM requested r
    CROSS JOIN LATERAL (
        SELECT q.ctid AS row_ctid
        FROM app.webhook_queue q
        WHERE q.destination_id = r.destination_id AND q.queue_position > r.low AND q.queue_position <= r.high
              AND q.lease_until IS NULL
        ORDER BY q.queue_position
        LIMIT r.rows_max
        FOR UPDATE SKIP LOCKED
    ) q
    WHERE r.paused_until IS NULL OR r.paused_until <= app.webhook_now()
)",
        "
UNION ALL
SELECT r.n, NULL, NULL, NULL, NULL, NULL, r.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       least(r.paused_until, app.webhook_now() + interval '5 seconds'), NULL, NULL
FROM requested r
WHERE r.paused_until > app.webhook_now()"
    ),
    types: &[
        Type::UUID,
        Type::TEXT,
        Type::INT8,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// Grants new leases on events whose lease has expired, by their keys. An event of a paused destination gets no lease,
/// but a row with the end of the pause, as in [`GRANT_RANGES`], and without a queue position.
static TAKE_OVER_EXPIRED: Sql = Sql {
    text: grant_leases!(
        "picked AS MATERIALIZED (
    SELECT 0::bigint AS n, d.url, q.lost_claim, q.row_ctid
    FROM unnest($4::bigint[]) AS k (key)
    CROSS JOIN LATERAL (
        SELECT q.ctid AS row_ctid, q.lease_claim AS lost_claim, q.destination_id
        FROM app.webhook_queue q
        WHERE q.id = k.key AND q.lease_until <= app.webhook_now()
        FOR UPDATE SKIP LOCKED
    ) q
    JOIN app.webhook_destinations d ON d.id = q.destination_id
    WHERE d.paused_until IS NULL OR d.paused_until <= app.webhook_now()
)",
        "
UNION ALL
SELECT 0, NULL, q.id, NULL, NULL, NULL, q.destination_id, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
       least(d.paused_until, app.webhook_now() + interval '5 seconds'), NULL, NULL
FROM unnest($4::bigint[]) AS k (key)
JOIN app.webhook_queue q ON q.id = k.key
JOIN app.webhook_destinations d ON d.id = q.destination_id
WHERE d.paused_until > app.webhook_now()"
    ),
    types: &[Type::UUID, Type::TEXT, Type::INT8, Type::INT8_ARRAY],
};

/// Reschedules the expiry checks of the claims $1, which have lost leases to a takeover or to abandonment.
static RESCHEDULE_LOST_CLAIMS: Sql = Sql {
    text: reschedule_expiry_checks!("SELECT DISTINCT unnest($1::uuid[])", ""),
    types: &[Type::UUID_ARRAY],
};

/// Grants the leases of a plan. Adds them to `leases`, deducts them from the budget, and removes the claimed ranges
/// from the index.
pub(super) async fn execute_plan(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    plan: &ClaimPlan,
    budget: &mut ClaimBudget,
    leases: &mut Vec<Lease>,
) -> Result<(), tokio_postgres::Error> {
    if !plan.takeovers.is_empty() {
        take_over(session, claimable, request, &plan.takeovers, budget, leases).await?;
    }
    if !plan.range_claims.is_empty() {
        claim_ranges(session, claimable, request, &plan.range_claims, budget, leases).await?;
    }
    Ok(())
}

/// Grants new leases on events whose lease has expired, and reschedules the expiry checks of the claims that lost them.
async fn take_over(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    expired: &[EventKey],
    budget: &mut ClaimBudget,
    leases: &mut Vec<Lease>,
) -> Result<(), tokio_postgres::Error> {
    let keys: Vec<i64> = expired.iter().map(|key| key.0).collect();
    let (lease_us, claim, owner) = (micros(request.lease), request.id.as_uuid(), request.owner.as_str());
    let rows = session.transact(&TAKE_OVER_EXPIRED, &[&claim, &owner, &lease_us, &keys]).await?;
    let mut lost_claims: Vec<Uuid> = Vec::new();
    let mut paused = Vec::new();
    for row in &rows {
        if row.try_get::<_, Option<i64>>(1)?.is_none() {
            claimable.record_pause(DestinationId(row.try_get(6)?), row.try_get::<_, PgTimestamp>(15)?.0);
            paused.push(EventKey(row.try_get(2)?));
            continue;
        }
        let lease = parse_lease(row)?;
        budget.take(lease.destination_id, 1, lease.is_retry());
        leases.push(lease);
        lost_claims.push(row.try_get(17)?);
    }
    // An event that is neither granted nor paused has been renewed or taken over. The row of its claim holds the time
    // of the next check.
    for key in expired.iter().filter(|key| !paused.contains(key)) {
        claimable.expired.remove(key);
    }
    reschedule_lost_claims(session, &lost_claims).await
}

/// Reschedules the expiry checks of claims that have lost leases, so that the checks find the leases that they still
/// hold.
pub(super) async fn reschedule_lost_claims(
    session: &Session,
    lost_claims: &[Uuid],
) -> Result<(), tokio_postgres::Error> {
    if !lost_claims.is_empty() {
        session.transact(&RESCHEDULE_LOST_CLAIMS, &[&lost_claims]).await?;
    }
    Ok(())
}

/// Grants leases within the planned ranges.
async fn claim_ranges(
    session: &Session,
    claimable: &mut ClaimableIndex,
    request: &ClaimRequest,
    range_claims: &[RangeClaim],
    budget: &mut ClaimBudget,
    leases: &mut Vec<Lease>,
) -> Result<(), tokio_postgres::Error> {
    let destinations: Vec<i64> = range_claims.iter().map(|claim| claim.destination.0).collect();
    let lows: Vec<i64> = range_claims.iter().map(|claim| claim.range.low).collect();
    let highs: Vec<i64> = range_claims.iter().map(|claim| claim.range.high).collect();
    let limits: Vec<i64> =
        range_claims.iter().map(|claim| i64::try_from(claim.limit).unwrap_or(i64::MAX)).collect();
    let (lease_us, claim, owner) = (micros(request.lease), request.id.as_uuid(), request.owner.as_str());
    let rows = session
        .transact(&GRANT_RANGES, &[&claim, &owner, &lease_us, &destinations, &lows, &highs, &limits])
        .await?;

    // Per range claim: the number of leases, and the last position among them.
    let mut granted: Vec<(usize, Option<i64>)> = vec![(0, None); range_claims.len()];
    let mut paused = vec![false; range_claims.len()];
    leases.reserve(rows.len());
    for row in &rows {
        let index = usize::try_from(row.try_get::<_, i64>(0)? - 1).expect("WITH ORDINALITY numbers from one");
        let Some(position) = row.try_get::<_, Option<i64>>(1)? else {
            claimable.record_pause(DestinationId(row.try_get(6)?), row.try_get::<_, PgTimestamp>(15)?.0);
            paused[index] = true;
            continue;
        };
        let lease = parse_lease(row)?;
        budget.take(lease.destination_id, 1, lease.is_retry());
        leases.push(lease);
        let (count, last_position) = &mut granted[index];
        *count += 1;
        *last_position = (*last_position).max(Some(position));
    }
    for ((claim, (count, last_position)), paused) in range_claims.iter().zip(granted).zip(paused) {
        if !paused {
            claimable.record_claimed(claim, count, last_position);
        }
    }
    Ok(())
}

/// Grants a lease on one event of a destination, in a transaction that the caller has begun.
pub(crate) async fn grant_in_transaction(
    session: &Session,
    request: &ClaimRequest,
    destination: i64,
) -> Result<Option<Lease>, tokio_postgres::Error> {
    let (lease_us, claim, owner) = (micros(request.lease), request.id.as_uuid(), request.owner.as_str());
    let (destinations, lows, highs, limits) = (vec![destination], vec![0_i64], vec![i64::MAX], vec![1_i64]);
    let rows = session
        .query(&GRANT_RANGES, &[&claim, &owner, &lease_us, &destinations, &lows, &highs, &limits])
        .await?;
    // A paused destination has a row without a queue position.
    let granted = rows.iter().find(|row| matches!(row.try_get::<_, Option<i64>>(1), Ok(Some(_))));
    granted.map(parse_lease).transpose()
}

/// Parses a row of [`GRANT_RANGES`], [`TAKE_OVER_EXPIRED`] or `REPEAT_CLAIM`, which select the same columns.
pub(super) fn parse_lease(row: &Row) -> Result<Lease, tokio_postgres::Error> {
    let attempts = unsigned(row.try_get(12)?);
    let is_requeued =
        row.try_get::<_, Option<&str>>(14)?.and_then(ManualAction::from_name) == Some(ManualAction::Requeue);
    let (due, now): (PgTimestamp, PgTimestamp) = (row.try_get(15)?, row.try_get(16)?);
    Ok(Lease {
        key: EventKey(row.try_get(2)?),
        token: LeaseToken::from_uuid(row.try_get(3)?),
        event_id: EventId::from_stored(row.try_get(4)?),
        message_id: MessageId::from_uuid(row.try_get(5)?),
        destination_id: DestinationId(row.try_get(6)?),
        destination_url: DestinationUrl::from_stored(row.try_get(7)?),
        event_type: row.try_get(8)?,
        content_type: row.try_get(9)?,
        payload: Bytes::copy_from_slice(row.try_get::<_, Option<&[u8]>>(10)?.unwrap_or_default()),
        traceparent: row.try_get(11)?,
        attempts,
        max_attempts: unsigned(row.try_get(13)?),
        trigger: Trigger::for_attempt(is_requeued, attempts),
        overdue: now.0.since(due.0),
    })
}
