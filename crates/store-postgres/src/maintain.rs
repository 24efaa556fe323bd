//! Retention: deletes old rows, a small step per call.

mod dead_letters;
mod delivered;
mod destinations;
mod partitions;
mod registry;

use posthaste_store::{MaintenanceReport, Retention, StoreError};
use tokio_postgres::types::Type;

use self::registry::RegistryCursors;
use crate::StoreState;
use crate::convert::micros;
use crate::secrets::DELETE_RETIRED_SECRETS;
use crate::session::Sql;
use delivered::DeliveredPass;

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
        report.has_more |= registry::clean(session, &mut cursors.registry, rows_max).await?;
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
        registry::remove_applications(session).await?;
        let Some(keep_for) = retention.keep_for else { return Ok(report) };
        let keep_for = micros(keep_for);
        let remaining = rows_max - i64::try_from(report.removed).unwrap_or(rows_max);
        let step = cursors.delivered.step(session, keep_for, remaining).await?;
        let notices = session.transact(&DELETE_OLD_NOTICES, &[&keep_for, &rows_max]).await?.len();
        let discards = session.transact(&FORGET_OLD_DISCARDS, &[&keep_for, &rows_max]).await?.len();
        // After the events that they delivered.
        let attempts_remain = match cursors.delivered.completed_to() {
            Some(before) => partitions::drop_old_partitions(session, before, rows_max).await?,
            None => false,
        };
        report.has_more |= registry::remove_old(session, &mut cursors.registry, keep_for, rows_max).await?;
        report.removed += step.removed;
        let is_full = |rows: usize| rows >= retention.rows_max.max(1);
        report.has_more |= step.has_more || is_full(notices) || is_full(discards) || attempts_remain;
        if cursors.delivered.has_ended() && cursors.registry.has_ended() {
            cursors.delivered.start_again();
            cursors.registry.start_again();
        }
        Ok(report)
    });
    let report = report.await;
    // Cancelled events have notices.
    store.committed_notices.notify();
    report
}

/// Where the retention passes in progress continue; zero between passes. A pass never reads again from the start of an
/// index, which holds the dead entries of the rows that it has deleted.
///
/// The passes over delivered events and over messages begin together: the one that ends first rests until the other has ended.
/// Passes that began again on their own would end at different steps, and maintenance would always find one that has more.
#[derive(Default)]
pub(crate) struct RetentionCursors {
    delivered: DeliveredPass,
    /// Last change, in microseconds, of the last failed event that was deleted.
    dead_letters: i64,
    /// The last destination examined.
    destinations: i64,
    registry: RegistryCursors,
}

/// The result of one step of a retention pass.
struct RetentionStep {
    removed: usize,
    /// Where the next step continues; zero once the pass is complete.
    next_cursor: i64,
    has_more: bool,
}
