//! The statements of discovery, which find rows that have become claimable, at a cost that does not grow with the backlog.
//!
//! Discovery reads each row about once: first attempts above the last position read, retries as they become due. It
//! never reads from the start of an index, which holds the dead entries of delivered events. Sequence numbers without
//! a row are read again. A periodic sweep over all destinations finds rows that discovery has missed.

use std::time::Duration;

use posthaste_claimable::{
    ClaimableIndex, CommittedNumber, DiscoveryCursors, ExpiredLease, QueuedRow, ServerSnapshot, StepRows,
};
use posthaste_domain::{DestinationId, EventKey, Timestamp};
use posthaste_store::{RequestedProbe, ResumedDestination};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::convert::{PgTimestamp, unsigned};
use crate::session::Sql;

/// Maximum number of rows that one step reads of one range; the next step continues after them.
const STEP_ROWS: usize = 5_000;
/// [`STEP_ROWS`] as a statement parameter.
pub(crate) const STEP_ROWS_MAX: i64 = 5_000;
/// New events that a step reads for each millisecond since the step before, while the known ones fill the claim: more than producers
/// enqueue in that time. So discovery keeps up with them, and does not delay the claim for long.
const ROWS_PER_MILLISECOND: u128 = 200;
/// Claims checked for expired leases in one step.
pub(crate) const STEP_CLAIMS_MAX: i64 = 32;

/// Returns how many new events a step reads while the known ones fill the claim.
pub(crate) fn step_rows_beside_a_backlog(since_last_step: Duration) -> i64 {
    let rows = since_last_step.as_millis().saturating_mul(ROWS_PER_MILLISECOND);
    i64::try_from(rows).unwrap_or(STEP_ROWS_MAX).clamp(STEP_ROWS_MAX / 5, STEP_ROWS_MAX)
}

/// Reads the clock, the transaction snapshot, the sequence's last number, and the destinations that were resumed within
/// the last $1 microseconds, each with the time since (index webhook_destinations_resumed), and those whose profile has changed
/// since then (index webhook_destinations_updated), and those for which an operator has asked for a probe since then (index
/// webhook_destinations_probed). Tells whether the claim $2 has
/// been granted leases (index webhook_claims_request), and whether the expiry check of a claim is due, after $3 (index
/// webhook_claims_expiry_check_at). It runs before the statements that read rows, so every transaction that had ended by
/// then is visible to them.
pub(crate) static READ_SNAPSHOT: Sql = Sql {
    text: "
SELECT app.webhook_now(),
       pg_snapshot_xmin(s)::text::bigint,
       pg_snapshot_xmax(s)::text::bigint,
       (SELECT last_value FROM app.webhook_event_key),
       r.destinations, r.ago_us,
       EXISTS (SELECT FROM app.webhook_claims c WHERE c.request_id = $2),
       EXISTS (
           SELECT FROM app.webhook_claims c
           WHERE c.expiry_check_at > timestamptz 'epoch' + $3 * interval '1 microsecond'
                 AND c.expiry_check_at <= app.webhook_now()
       ),
       ARRAY(SELECT d.id FROM app.webhook_destinations d
             WHERE d.profile_updated_at > app.webhook_now() - $1 * interval '1 microsecond'),
       p.destinations, p.requested_at
FROM pg_current_snapshot() s
CROSS JOIN (
    SELECT array_agg(d.id) AS destinations, array_agg(d.probe_requested_at) AS requested_at
    FROM app.webhook_destinations d
    WHERE d.probe_requested_at > app.webhook_now() - $1 * interval '1 microsecond'
) p
CROSS JOIN (
    SELECT array_agg(d.id) AS destinations,
           array_agg((extract(epoch FROM app.webhook_now() - d.resumed_at) * 1000000)::bigint) AS ago_us
    FROM app.webhook_destinations d
    WHERE d.resumed_at > app.webhook_now() - $1 * interval '1 microsecond'
) r",
    types: &[Type::INT8, Type::UUID, Type::INT8],
};

/// Reads the queued events of each position range ($1, $2) that are due, ascending, leased or not, up to $3 of each. Returns them as
/// arrays, which cost less than rows. Uses index webhook_queue_id for new events, whose position is their key, and
/// webhook_queue_position for the others.
pub(crate) static NEW_ROWS: Sql = Sql {
    text: "
SELECT s.n, q.positions, q.destinations, q.leased
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[]) WITH ORDINALITY AS s (low, high, rows_max, n)
CROSS JOIN LATERAL (
    SELECT array_agg(q.queue_position) AS positions, array_agg(q.destination_id) AS destinations,
           array_agg(q.leased) AS leased
    FROM (
        SELECT q.queue_position, q.destination_id, q.leased
        FROM (
            (
                SELECT q.queue_position, q.destination_id, q.lease_until IS NOT NULL AS leased
                FROM app.webhook_queue q
                WHERE q.id > s.low AND q.id <= s.high AND q.queue_position = q.id
                ORDER BY q.id
                LIMIT s.rows_max
            )
            UNION ALL
            (
                SELECT q.queue_position, q.destination_id, q.lease_until IS NOT NULL AS leased
                FROM app.webhook_queue q
                WHERE q.queue_position > s.low
                      AND q.queue_position <= least(s.high, app.webhook_retry_position(app.webhook_now()))
                      AND q.queue_position <> q.id
                ORDER BY q.queue_position
                LIMIT s.rows_max
            )
        ) q
        ORDER BY q.queue_position
        LIMIT s.rows_max
    ) q
) q
WHERE q.positions IS NOT NULL",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8_ARRAY],
};

/// Reads the numbers within gaps whose events have been committed. Uses index webhook_events_id. It runs before
/// [`NEW_ROWS`], so an event that is committed and not in the queue has reached a terminal state.
pub(crate) static COMMITTED_IN_GAPS: Sql = Sql {
    text: "
SELECT s.n, e.id
FROM unnest($1::bigint[], $2::bigint[]) WITH ORDINALITY AS s (low, high, n)
CROSS JOIN LATERAL (
    SELECT e.id FROM app.webhook_events e WHERE e.id > s.low AND e.id <= s.high ORDER BY e.id LIMIT $3
) e",
    types: &[Type::INT8_ARRAY, Type::INT8_ARRAY, Type::INT8],
};

/// Checks the claims whose expiry check is due, after $1 and at most $2. Uses index webhook_claims_expiry_check_at.
///
/// Deletes a claim that holds no lease. Reschedules a claim whose leases are all live to their first expiry. Returns
/// the expired leases of the others. A claim that has been granted more leases meanwhile is left unchanged.
pub(crate) static EXPIRED_LEASES: Sql = Sql {
    text: "
WITH due AS MATERIALIZED (
    SELECT c.id, c.expiry_check_at, c.event_keys
    FROM app.webhook_claims c
    WHERE c.expiry_check_at > timestamptz 'epoch' + $1 * interval '1 microsecond' AND c.expiry_check_at <= app.webhook_now()
    ORDER BY c.expiry_check_at
    LIMIT $2
),
leased AS MATERIALIZED (
    SELECT d.id AS claim, q.id, q.destination_id, q.attempts, q.lost_leases, q.lease_until
    FROM due d
    CROSS JOIN LATERAL unnest(d.event_keys) AS k (key)
    JOIN app.webhook_queue q ON q.id = k.key AND q.lease_claim = d.id
),
live_claims AS (
    UPDATE app.webhook_claims c
    SET expiry_check_at = l.first_expiry, event_keys = l.event_keys
    FROM (SELECT claim, min(lease_until) AS first_expiry, array_agg(id) AS event_keys FROM leased GROUP BY claim) l
    JOIN due d ON d.id = l.claim
    WHERE c.id = l.claim AND c.event_keys = d.event_keys AND l.first_expiry > app.webhook_now()
),
empty_claims AS (
    DELETE FROM app.webhook_claims c
    USING due d
    WHERE c.id = d.id AND c.event_keys = d.event_keys AND NOT EXISTS (SELECT FROM leased l WHERE l.claim = d.id)
)
SELECT (SELECT count(*) FROM due), (SELECT max(expiry_check_at) FROM due), l.id, l.destination_id, l.attempts, l.lost_leases
FROM (SELECT) one
LEFT JOIN leased l ON l.lease_until <= app.webhook_now()",
    types: &[Type::INT8, Type::INT8],
};

/// Parses what a step has read: the rows of [`NEW_ROWS`] and of [`COMMITTED_IN_GAPS`].
pub(crate) fn parse_step(queued: &[Row], committed: &[Row]) -> Result<StepRows, tokio_postgres::Error> {
    let mut rows = Vec::new();
    for range in queued {
        let index = range_index(range)?;
        let (positions, destinations): (Vec<i64>, Vec<i64>) = (range.try_get(1)?, range.try_get(2)?);
        let leased: Vec<bool> = range.try_get(3)?;
        rows.extend(positions.into_iter().zip(destinations).zip(leased).map(
            |((position, destination), is_leased)| QueuedRow {
                range: index,
                position,
                destination: DestinationId(destination),
                is_leased,
            },
        ));
    }
    let committed = committed.iter().map(|row| {
        let number = row.try_get(1)?;
        Ok(CommittedNumber { gap: range_index(row)?, number })
    });
    Ok(StepRows {
        queued: rows,
        committed: committed.collect::<Result<_, tokio_postgres::Error>>()?,
        rows_max: STEP_ROWS,
    })
}

/// Adds the rows of [`EXPIRED_LEASES`] to the index, and advances the cursor of expiry checks.
pub(crate) fn record_expired(
    rows: &[Row],
    now: Timestamp,
    cursors: &mut DiscoveryCursors,
    claimable: &mut ClaimableIndex,
) -> Result<(), tokio_postgres::Error> {
    for row in rows {
        if let Some(key) = row.try_get::<_, Option<i64>>(2)? {
            let expired = ExpiredLease {
                destination: DestinationId(row.try_get(3)?),
                attempts: unsigned(row.try_get(4)?),
                lost_leases: unsigned(row.try_get(5)?),
            };
            claimable.record_expired(EventKey(key), expired);
        }
    }
    let Some(row) = rows.first() else { return Ok(()) };
    let claims_checked: i64 = row.try_get(0)?;
    match row.try_get::<_, Option<PgTimestamp>>(1)? {
        Some(PgTimestamp(last)) if claims_checked >= STEP_CLAIMS_MAX => {
            cursors.record_partial_expiry_checks(last);
        }
        _ => cursors.record_expiry_checks(now),
    }
    Ok(())
}

/// The row of [`READ_SNAPSHOT`].
pub(crate) struct SnapshotRow {
    pub(crate) snapshot: ServerSnapshot,
    /// The sequence's last number.
    pub(crate) last_number: i64,
    pub(crate) resumed: Vec<ResumedDestination>,
    /// Destinations whose URL, keys or headers have changed.
    pub(crate) updated: Vec<DestinationId>,
    pub(crate) probes: Vec<RequestedProbe>,
    /// Whether the claim has been granted leases.
    pub(crate) is_claim_known: bool,
    /// Whether the expiry check of a claim is due.
    pub(crate) has_due_expiry_checks: bool,
}

impl SnapshotRow {
    pub(crate) fn parse(rows: &[Row]) -> Result<Self, tokio_postgres::Error> {
        let row = rows.first().expect("the statement returns one row");
        let snapshot = ServerSnapshot {
            now: row.try_get::<_, PgTimestamp>(0)?.0,
            xmin: row.try_get(1)?,
            xmax: row.try_get(2)?,
        };
        Ok(Self {
            snapshot,
            last_number: row.try_get(3)?,
            resumed: parse_resumed(row)?,
            updated: row.try_get::<_, Vec<i64>>(8)?.into_iter().map(DestinationId).collect(),
            probes: parse_probes(row)?,
            is_claim_known: row.try_get(6)?,
            has_due_expiry_checks: row.try_get(7)?,
        })
    }
}

/// Parses the resumed destinations in the row of [`READ_SNAPSHOT`].
fn parse_resumed(row: &Row) -> Result<Vec<ResumedDestination>, tokio_postgres::Error> {
    let destinations: Option<Vec<i64>> = row.try_get(4)?;
    let ago_us: Option<Vec<i64>> = row.try_get(5)?;
    let resumed = destinations.unwrap_or_default().into_iter().zip(ago_us.unwrap_or_default());
    let parse = |(id, ago_us): (i64, i64)| ResumedDestination {
        destination: DestinationId(id),
        ago: Duration::from_micros(u64::try_from(ago_us).unwrap_or(0)),
    };
    Ok(resumed.map(parse).collect())
}

/// Parses the requested probes in the row of [`READ_SNAPSHOT`].
fn parse_probes(row: &Row) -> Result<Vec<RequestedProbe>, tokio_postgres::Error> {
    let destinations: Option<Vec<i64>> = row.try_get(9)?;
    let requested_at: Option<Vec<PgTimestamp>> = row.try_get(10)?;
    let requested = destinations.unwrap_or_default().into_iter().zip(requested_at.unwrap_or_default());
    let parse =
        |(id, PgTimestamp(requested_at))| RequestedProbe { destination: DestinationId(id), requested_at };
    Ok(requested.map(parse).collect())
}

/// Returns the index of the range that a row was read for.
fn range_index(row: &Row) -> Result<usize, tokio_postgres::Error> {
    Ok(usize::try_from(row.try_get::<_, i64>(0)? - 1).expect("WITH ORDINALITY numbers from one"))
}
