//! Retention: removes old rows, a small step per call.
//!
//! The log of event results is in commit order. Reading it from its oldest entry therefore finds both the events that
//! were delivered long ago and the old attempts of events that stay. If the clock is set back, some rows are kept longer
//! by the same amount; an index by age would avoid this at a cost to every settle.

use posthaste_domain::{EventKey, FailureKind, NoticeKind, Timestamp};
use posthaste_store::{MaintenanceReport, Retention};
use rusqlite::{Connection, OptionalExtension as _};

use crate::bulk;
use crate::destination;
use crate::error::CallError;
use crate::notices::{self, LogEntry};
use crate::registry::{self, MessageCursor};
use crate::remove;
use crate::row;
use crate::secrets;
use crate::totals::TotalsChange;
use crate::unused_destinations;

/// Where the next maintenance step continues its walks over tables that have no index by age.
#[derive(Debug, Default)]
pub(crate) struct MaintenanceCursor {
    destination: i64,
    message: MessageCursor,
}

/// Removes up to `rows_max` old events, failed ones first, and reports how many. Also removes retired secrets and up to
/// `rows_max` expired idempotency keys, up to `rows_max` log entries with the attempts and delivered events that they refer
/// to, and forgets up to `rows_max` discarded events. Of the registry it removes expired answers, retired keys, expired
/// payloads and what belongs to deleted endpoints and applications.
pub(crate) fn maintain(
    db: &Connection,
    now: Timestamp,
    cursor: &mut MaintenanceCursor,
    retention: &Retention,
) -> Result<MaintenanceReport, CallError> {
    let rows_max = i64::try_from(retention.rows_max).unwrap_or(i64::MAX);
    remove_expired_keys(db, now, rows_max)?;
    secrets::remove_retired(db, now)?;
    registry::remove_retired_keys(db, now)?;
    destination::remove_expired_reports(db, now)?;
    let mut has_more = registry::remove_expired_answers(db, now, rows_max)?;
    has_more |= registry::cancel_of_deleted(db, now, retention.rows_max)?;
    has_more |= registry::expunge_expired(db, now, rows_max)?;
    let horizon = retention.keep_for.map(|keep| now.before(keep));
    let mut report = MaintenanceReport::default();
    if let Some(keep_for) = retention.keep_dead_letters_for {
        report.removed = remove_dead_letters(db, now.before(keep_for), rows_max)?;
    }
    report.has_more = report.removed >= retention.rows_max;
    let remaining = retention.rows_max - report.removed;
    if let Some(horizon) = horizon {
        report.removed += remove_entries(db, horizon, remaining)?;
        report.has_more |= remove::forget_old_discards(db, horizon, rows_max)? >= retention.rows_max;
        has_more |= registry::remove_old_messages(db, &mut cursor.message, horizon, rows_max)?;
        registry::remove_old_operations(db, horizon)?;
        bulk::remove_old(db, horizon)?;
    }
    if let Some(keep_for) = retention.keep_unused_destinations_for {
        let horizon = now.before(keep_for);
        report.has_more |=
            unused_destinations::remove_unused(db, &mut cursor.destination, now, horizon, rows_max)?;
    }
    registry::remove_deleted_applications(db, rows_max)?;
    report.has_more |= has_more || has_old_rows(db, now, horizon)?;
    Ok(report)
}

fn remove_expired_keys(db: &Connection, now: Timestamp, rows_max: i64) -> rusqlite::Result<()> {
    // The oldest rows expire first.
    db.prepare_cached(
        "DELETE FROM webhook_idempotency
         WHERE id IN (SELECT id FROM webhook_idempotency ORDER BY id LIMIT ?2) AND expires_at <= ?1",
    )?
    .execute((now.as_micros(), rows_max))?;
    Ok(())
}

/// Failed events, the longest unchanged first. Index: webhook_failures_updated_at.
pub(crate) const OLD_FAILURES: &str = "
    SELECT id, failure_kind FROM webhook_failures INDEXED BY webhook_failures_updated_at
    WHERE updated_at <= ?1 ORDER BY updated_at LIMIT ?2";

/// Removes up to `rows_max` failed events that have not changed since the horizon. Returns how many.
fn remove_dead_letters(db: &Connection, horizon: Timestamp, rows_max: i64) -> rusqlite::Result<usize> {
    let failures: Vec<(EventKey, FailureKind)> = db
        .prepare_cached(OLD_FAILURES)?
        .query_map((horizon.as_micros(), rows_max), |row| {
            Ok((EventKey(row.get(0)?), row::decode(row, 1, FailureKind::from_name)?))
        })?
        .collect::<Result<_, _>>()?;
    let mut totals = TotalsChange::default();
    for (key, kind) in &failures {
        remove::remove_event(db, *key)?;
        remove::remove_audit(db, *key)?;
        totals.add_removed_failure(*kind);
    }
    totals.write(db)?;
    Ok(failures.len())
}

/// Removes up to `entries_max` log entries older than `horizon` and returns the number of events removed with them.
fn remove_entries(db: &Connection, horizon: Timestamp, entries_max: usize) -> rusqlite::Result<usize> {
    let mut remaining = entries_max;
    let mut removed = 0;
    while remaining > 0
        && let Some(batch) = oldest_batch(db, horizon)?
    {
        let expired = &batch.entries[..remaining.min(batch.entries.len())];
        for entry in expired {
            if entry.kind == Some(NoticeKind::Delivered) {
                removed += usize::from(remove_delivered(db, entry.key)?);
            } else {
                remove_attempt(db, entry)?;
            }
        }
        if expired.len() == batch.entries.len() {
            db.prepare_cached("DELETE FROM webhook_notices WHERE id = ?1")?.execute([batch.id])?;
        } else {
            db.prepare_cached(
                "UPDATE webhook_notices SET entries_removed = entries_removed + ?2 WHERE id = ?1",
            )?
            .execute((batch.id, i64::try_from(expired.len()).unwrap_or(i64::MAX)))?;
        }
        remaining -= expired.len();
    }
    let mut totals = TotalsChange::default();
    totals.add_removed(removed);
    totals.write(db)?;
    Ok(removed)
}

/// The oldest row of the notice log: the results that one commit wrote, without the entries that are removed already.
struct OldestBatch {
    id: i64,
    entries: Vec<LogEntry>,
}

/// Reads the oldest row of the notice log if it is older than `horizon`.
fn oldest_batch(db: &Connection, horizon: Timestamp) -> rusqlite::Result<Option<OldestBatch>> {
    db.prepare_cached(
        "SELECT id, entries_removed, entries
         FROM (SELECT id, at, entries_removed, entries FROM webhook_notices ORDER BY id LIMIT 1)
         WHERE at <= ?1",
    )?
    .query_row([horizon.as_micros()], |row| {
        let entries_removed: i64 = row.get(1)?;
        let entries = notices::unpack_entries(row.get_ref(2)?.as_blob()?);
        let entries =
            entries.filter(|(index, _)| *index >= entries_removed).map(|(_, entry)| entry).collect();
        Ok(OldestBatch { id: row.get(0)?, entries })
    })
    .optional()
}

/// Removes a delivered event with its audit log. Returns false if the event no longer exists.
fn remove_delivered(db: &Connection, key: EventKey) -> rusqlite::Result<bool> {
    let is_removed = remove::remove_event(db, key)?;
    if is_removed {
        remove::remove_audit(db, key)?;
    }
    Ok(is_removed)
}

/// Removes the attempt that an entry refers to, if any.
fn remove_attempt(db: &Connection, entry: &LogEntry) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM webhook_attempts WHERE event_key = ?1 AND position = ?2")?
        .execute((entry.key.0, entry.attempt_position))?;
    Ok(())
}

/// Returns whether another step would remove something. Reads only the oldest idempotency key and log row.
fn has_old_rows(db: &Connection, now: Timestamp, horizon: Option<Timestamp>) -> rusqlite::Result<bool> {
    let oldest_key =
        "SELECT coalesce((SELECT expires_at FROM webhook_idempotency ORDER BY id LIMIT 1) <= ?1, FALSE)";
    if db.prepare_cached(oldest_key)?.query_row([now.as_micros()], |row| row.get(0))? {
        return Ok(true);
    }
    let Some(horizon) = horizon else {
        return Ok(false);
    };
    db.prepare_cached("SELECT coalesce((SELECT at FROM webhook_notices ORDER BY id LIMIT 1) <= ?1, FALSE)")?
        .query_row([horizon.as_micros()], |row| row.get(0))
}
