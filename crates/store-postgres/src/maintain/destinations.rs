//! Removal of destinations that no event refers to, a few per maintenance step.
//!
//! An enqueue reads its destination and inserts an event that refers to it, without a lock on the destination: a lock would
//! cost every event a write to the same row. So the removal takes three steps of maintenance, under a lock that only one
//! process holds:
//!
//! 1. *Announce*: `removal_xid` becomes 0. Enqueues that see it lock the row until their transaction ends.
//! 2. *Date*: `removal_xid` becomes the id of the maintenance transaction. An enqueue that did not see the announcement
//!    got its transaction id before it read the destination, and so before the announcement was committed: its id is
//!    lower.
//! 3. *Remove*: once every transaction with a lower id has ended, and if no enqueue holds the row, the row is locked. A new
//!    snapshot then shows the events of all of them. If there is none, the destination is deleted.
//!
//! A destination that is used again loses its `removal_xid`.

use tokio_postgres::types::Type;

use crate::session::{BEGIN, Session, Sql};

/// Takes the lock of this removal, or returns false if another process holds it.
static TRY_LOCK: Sql = Sql { text: "SELECT pg_try_advisory_xact_lock(7526, 3)", types: &[] };

/// The condition under which the destination `d` is unused: no event refers to it, it is a deleted endpoint or a URL that is neither
/// paused nor reported as open and has neither keys nor headers, and it was neither created nor began to fail nor was changed by an operator for $1 microseconds. Uses indexes
/// webhook_circuits_destination, webhook_destination_audit_destination, and webhook_events_destination from its newest
/// event on: the oldest entries of a busy destination are dead.
macro_rules! is_unused {
    () => {
        "(greatest(d.created_at, d.failing_since) <= app.webhook_now() - $1 * interval '1 microsecond'
          AND CASE WHEN d.kind = 'endpoint' THEN
              EXISTS (SELECT FROM app.webhook_endpoints e WHERE e.destination_id = d.id AND e.deleted_at IS NOT NULL)
          ELSE
              d.profile_version = 0
              AND (d.paused_until IS NULL OR d.paused_until <= app.webhook_now())
              AND NOT EXISTS (
                  SELECT FROM app.webhook_circuits c WHERE c.destination_id = d.id AND c.expires_at > app.webhook_now()
              )
          END
          AND NOT EXISTS (
              SELECT FROM app.webhook_destination_audit a
              WHERE a.destination_id = d.id AND a.at > app.webhook_now() - $1 * interval '1 microsecond'
          )
          AND (SELECT e.id FROM app.webhook_events e WHERE e.destination_id = d.id ORDER BY e.id DESC LIMIT 1) IS NULL)"
    };
}

/// Examines up to $3 destinations after the id $2: announces and dates the removal of unused ones, and keeps those that are
/// used again. A date beyond the snapshot comes from another server, whose dump was restored here; it is set again. Returns
/// the destinations that every older transaction has left.
static EXAMINE: Sql = Sql {
    text: concat!(
        "
WITH snapshot AS MATERIALIZED (
    SELECT pg_snapshot_xmin(s)::text::bigint AS xmin, pg_snapshot_xmax(s)::text::bigint AS xmax
    FROM pg_current_snapshot() s
),
examined AS MATERIALIZED (
    SELECT d.id, d.removal_xid, ",
        is_unused!(),
        " AS is_unused
    FROM app.webhook_destinations d
    WHERE d.id > $2
    ORDER BY d.id
    LIMIT $3
),
changes AS MATERIALIZED (
    SELECT x.id, CASE WHEN NOT x.is_unused THEN NULL WHEN x.removal_xid IS NULL THEN 'announce' ELSE 'date' END AS change
    FROM examined x, snapshot s
    WHERE (x.is_unused AND (x.removal_xid IS NULL OR x.removal_xid = 0 OR x.removal_xid > s.xmax))
          OR (NOT x.is_unused AND x.removal_xid IS NOT NULL)
),
changed AS (
    UPDATE app.webhook_destinations d
    SET removal_xid = CASE c.change WHEN 'announce' THEN 0 WHEN 'date' THEN pg_current_xact_id()::text::bigint END
    FROM changes c
    WHERE d.id = c.id
)
SELECT (SELECT count(*) FROM examined), (SELECT max(id) FROM examined), (SELECT count(*) FROM changes),
       ARRAY(SELECT x.id FROM examined x, snapshot s
             WHERE x.is_unused AND x.removal_xid > 0 AND x.removal_xid <= s.xmin)"
    ),
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Locks destinations, except those that an enqueue or a settle holds.
static LOCK_ROWS: Sql = Sql {
    text: "SELECT d.id FROM app.webhook_destinations d WHERE d.id = ANY ($1) FOR UPDATE SKIP LOCKED",
    types: &[Type::INT8_ARRAY],
};

/// Deletes those of the locked destinations $2 that are still unused, with their circuit reports and audit logs.
static DELETE_UNUSED: Sql = Sql {
    text: concat!(
        "
WITH removed AS (
    DELETE FROM app.webhook_destinations d WHERE d.id = ANY ($2) AND ",
        is_unused!(),
        " RETURNING d.id
),
circuits AS (
    DELETE FROM app.webhook_circuits c USING removed r WHERE c.destination_id = r.id
),
audit AS (
    DELETE FROM app.webhook_destination_audit a USING removed r WHERE a.destination_id = r.id
),
endpoints AS (
    DELETE FROM app.webhook_endpoints e USING removed r WHERE e.destination_id = r.id
),
lines AS (
    DELETE FROM app.webhook_fifo_lines l USING removed r WHERE l.destination_id = r.id
),
sealed_values AS (
    DELETE FROM app.webhook_sealed_values s USING removed r WHERE s.destination_id = r.id
)
SELECT 1 FROM removed"
    ),
    types: &[Type::INT8, Type::INT8_ARRAY],
};

/// Runs one step: examines up to `rows_max` destinations after the cursor, and advances the cursor. Returns whether a step
/// that follows at once would probably find more to do.
pub(super) async fn remove_unused(
    session: &Session,
    cursor: &mut i64,
    keep_for: i64,
    rows_max: i64,
) -> Result<bool, tokio_postgres::Error> {
    session.begin(&BEGIN).await?;
    let locked = session.query(&TRY_LOCK, &[]).await?;
    let mut has_more = false;
    if locked.first().expect("the statement returns one row").try_get(0)? {
        let rows = session.query(&EXAMINE, &[&keep_for, &*cursor, &rows_max]).await?;
        let row = rows.first().expect("the statement returns one row");
        let (examined, last, changed): (i64, Option<i64>, i64) =
            (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let removed = remove(session, keep_for, row.try_get(3)?).await?;
        let is_at_end = examined < rows_max;
        *cursor = last.filter(|_| !is_at_end).unwrap_or(0);
        has_more = !is_at_end && (changed > 0 || removed > 0);
    }
    session.client().batch_execute("COMMIT").await?;
    Ok(has_more)
}

/// Removes the destinations that no transaction can refer to any more. The second statement has a newer snapshot than the
/// locks. Returns how many it removed.
async fn remove(
    session: &Session,
    keep_for: i64,
    candidates: Vec<i64>,
) -> Result<usize, tokio_postgres::Error> {
    if candidates.is_empty() {
        return Ok(0);
    }
    let locked = session.query(&LOCK_ROWS, &[&candidates]).await?;
    let locked = locked.iter().map(|row| row.try_get(0)).collect::<Result<Vec<i64>, _>>()?;
    Ok(session.query(&DELETE_UNUSED, &[&keep_for, &locked]).await?.len())
}
