//! Retention: deletes old rows, a small step per call.

mod dead_letters;
mod destinations;
mod partitions;

use posthaste_store::{MaintenanceReport, Retention, StoreError};
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::convert::micros;
use crate::secrets::DELETE_RETIRED_SECRETS;
use crate::session::{Session, Sql};

pub(crate) use partitions::create_partitions;

/// Deletes expired idempotency keys. Uses index webhook_idempotency_expires_at.
static DELETE_EXPIRED_KEYS: Sql = Sql {
    text: "
DELETE FROM app.webhook_idempotency i
WHERE i.key = ANY (ARRAY(
    SELECT o.key
    FROM app.webhook_idempotency o
    WHERE o.expires_at <= app.webhook_now()
    ORDER BY o.expires_at
    LIMIT $1
))
RETURNING 1",
    types: &[Type::INT8],
};

/// Deletes circuit reports that workers no longer renew. Uses index webhook_circuits_expires_at.
static DELETE_EXPIRED_CIRCUITS: Sql =
    Sql { text: "DELETE FROM app.webhook_circuits c WHERE c.expires_at <= app.webhook_now()", types: &[] };

/// Examines up to $3 terminal events after the key $1, in key order, and deletes those that were delivered more than $2
/// ago, with all their rows. Failed events stay. An event accepted after the cutoff cannot have been delivered before
/// it, so the pass ends at the first such event.
static DELETE_DELIVERED: Sql = Sql {
    text: "
WITH cutoff AS (
    SELECT app.webhook_now() - $2 * interval '1 microsecond' AS at
),
examined AS MATERIALIZED (
    SELECT x.id, x.failure_kind IS NULL AND x.updated_at <= h.at AS is_old, e.created_at > h.at AS is_recent
    FROM cutoff h, app.webhook_terminal_events x
    JOIN app.webhook_events e ON e.id = x.id
    WHERE x.id > $1
    ORDER BY x.id
    LIMIT $3
),
terminal_events AS (
    DELETE FROM app.webhook_terminal_events x USING examined w WHERE x.id = w.id AND w.is_old RETURNING x.id
),
events AS (
    DELETE FROM app.webhook_events e USING terminal_events x WHERE e.id = x.id RETURNING e.id, e.message_id
),
messages AS (
    DELETE FROM app.webhook_messages m USING events e WHERE m.id = e.message_id
),
audit AS (
    DELETE FROM app.webhook_audit a USING events e WHERE a.event_key = e.id
),
counts AS (
    INSERT INTO app.webhook_counts (delivered) SELECT -count(*) FROM terminal_events HAVING count(*) > 0
)
SELECT (SELECT count(*) FROM terminal_events), (SELECT count(*) FROM examined), (SELECT max(id) FROM examined),
       coalesce((SELECT bool_or(is_recent) FROM examined), false)",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Forgets up to $2 events that were discarded more than $1 ago, with their audit logs. Uses indexes
/// webhook_discarded_events_discarded_at and webhook_audit_event.
static FORGET_OLD_DISCARDS: Sql = Sql {
    text: "
WITH forgotten AS (
    DELETE FROM app.webhook_discarded_events d
    WHERE d.id = ANY (ARRAY(
        SELECT o.id
        FROM app.webhook_discarded_events o
        WHERE o.discarded_at <= app.webhook_now() - $1 * interval '1 microsecond'
        ORDER BY o.discarded_at
        LIMIT $2
    ))
    RETURNING d.id
),
audit AS (
    DELETE FROM app.webhook_audit a USING forgotten f WHERE a.event_key = f.id
)
SELECT 1 FROM forgotten",
    types: &[Type::INT8, Type::INT8],
};

/// Deletes notices older than $1 among the $2 oldest rows of the log. Uses index webhook_notices_id.
static DELETE_OLD_NOTICES: Sql = Sql {
    text: "
DELETE FROM app.webhook_notices n
USING (SELECT o.id FROM app.webhook_notices o ORDER BY o.id LIMIT $2) o
WHERE n.id = o.id AND n.at <= app.webhook_now() - $1 * interval '1 microsecond'
RETURNING 1",
    types: &[Type::INT8, Type::INT8],
};

/// Creates partitions ahead, and deletes rows that retention no longer keeps. Reports how many events it removed, and
/// whether there is more to delete.
pub(crate) async fn maintain(
    store: &StoreState,
    retention: &Retention,
) -> Result<MaintenanceReport, StoreError> {
    let rows_max = i64::try_from(retention.rows_max.max(1)).unwrap_or(i64::MAX);
    let mut cursors = store.retention_cursors.lock().await;
    let report = store.sessions.dispatch.with(async |session| {
        partitions::create_partitions(session).await?;
        let keys = session.transact(&DELETE_EXPIRED_KEYS, &[&rows_max]).await?.len();
        session.transact(&DELETE_EXPIRED_CIRCUITS, &[]).await?;
        session.transact(&DELETE_RETIRED_SECRETS, &[]).await?;
        let mut report = MaintenanceReport { removed: 0, has_more: keys >= retention.rows_max.max(1) };
        if let Some(keep_for) = retention.keep_dead_letters_for {
            let step =
                dead_letters::delete_old(session, cursors.dead_letters, micros(keep_for), rows_max).await?;
            cursors.dead_letters = step.next_cursor;
            report.removed = step.removed;
            report.has_more |= step.has_more;
        }
        if let Some(keep_for) = retention.keep_unused_destinations_for {
            let cursor = &mut cursors.destinations;
            report.has_more |=
                destinations::remove_unused(session, cursor, micros(keep_for), rows_max).await?;
        }
        let Some(keep_for) = retention.keep_for else { return Ok(report) };
        let keep_for = micros(keep_for);
        let remaining = rows_max - i64::try_from(report.removed).unwrap_or(rows_max);
        let step = delete_delivered(session, cursors.delivered, keep_for, remaining).await?;
        let notices = session.transact(&DELETE_OLD_NOTICES, &[&keep_for, &rows_max]).await?.len();
        let discards = session.transact(&FORGET_OLD_DISCARDS, &[&keep_for, &rows_max]).await?.len();
        let attempts_remain = partitions::drop_old_partitions(session, keep_for, rows_max).await?;
        cursors.delivered = step.next_cursor;
        report.removed += step.removed;
        let is_full = |rows: usize| rows >= retention.rows_max.max(1);
        report.has_more |= step.has_more || is_full(notices) || is_full(discards) || attempts_remain;
        Ok(report)
    });
    report.await
}

/// Where the retention passes in progress continue; zero between passes. A pass never reads again from the start of an
/// index, which holds the dead entries of the rows that it has deleted.
#[derive(Default)]
pub(crate) struct RetentionCursors {
    /// Key of the last event that the pass over delivered events has examined.
    delivered: i64,
    /// Last change, in microseconds, of the last failed event that was deleted.
    dead_letters: i64,
    /// The last destination examined.
    destinations: i64,
}

/// The result of one step of a retention pass.
struct RetentionStep {
    removed: usize,
    /// Where the next step continues; zero once the pass is complete.
    next_cursor: i64,
    has_more: bool,
}

async fn delete_delivered(
    session: &Session,
    cursor: i64,
    keep_for: i64,
    rows_max: i64,
) -> Result<RetentionStep, tokio_postgres::Error> {
    if rows_max == 0 {
        return Ok(RetentionStep { removed: 0, next_cursor: cursor, has_more: true });
    }
    let rows = session.transact(&DELETE_DELIVERED, &[&cursor, &keep_for, &rows_max]).await?;
    let row = rows.first().expect("the statement returns one row");
    let (removed, examined): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (last_key, reached_recent): (Option<i64>, bool) = (row.try_get(2)?, row.try_get(3)?);
    let has_more = examined >= rows_max && !reached_recent;
    let next_cursor = if has_more { last_key.unwrap_or(0) } else { 0 };
    Ok(RetentionStep { removed: usize::try_from(removed).unwrap_or(0), next_cursor, has_more })
}
