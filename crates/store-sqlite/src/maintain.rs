//! Forgetting what retention no longer keeps, a small step at a time.
//!
//! The log of what became of events is in the order in which it was written. So one walk from its oldest entry finds
//! what was delivered long ago and the old attempts of events that stay. After the clock was set back a few may be kept
//! for longer, by as much as it was set back; an index by age would cost every settle for that.

use posthaste_domain::{EventKey, NoticeKind, Timestamp};
use posthaste_store::{Maintained, Retention};
use rusqlite::{Connection, OptionalExtension as _};

use crate::fault::Fault;
use crate::notices::{self, Entry};
use crate::totals::Change;

/// Removes at most `rows_max` of each: idempotency keys, and entries of the log with the attempts and deliveries that
/// they tell of. Counts the events.
pub(crate) fn maintain(db: &Connection, now: Timestamp, retention: &Retention) -> Result<Maintained, Fault> {
    let rows_max = i64::try_from(retention.rows_max).unwrap_or(i64::MAX);
    forget_keys(db, now, rows_max)?;
    let horizon = retention.keep.map(|keep| now.before(keep));
    let removed = match horizon {
        None => 0,
        Some(horizon) => remove_entries(db, horizon, retention.rows_max)?,
    };
    Ok(Maintained { removed, more: is_more(db, now, horizon)? })
}

fn forget_keys(db: &Connection, now: Timestamp, rows_max: i64) -> rusqlite::Result<()> {
    // Index: webhook_idempotency_forget_at.
    db.prepare_cached(
        "DELETE FROM webhook_idempotency
         WHERE rowid IN (SELECT rowid FROM webhook_idempotency
                         WHERE forget_at <= ?1
                         ORDER BY forget_at LIMIT ?2)",
    )?
    .execute((now.as_micros(), rows_max))?;
    Ok(())
}

/// The number of events that went with their entries.
fn remove_entries(db: &Connection, horizon: Timestamp, entries_max: usize) -> rusqlite::Result<usize> {
    let mut left = entries_max;
    let mut removed = 0;
    while left > 0
        && let Some(batch) = oldest_batch(db, horizon)?
    {
        let gone = &batch.entries[..left.min(batch.entries.len())];
        for entry in gone {
            if entry.kind == Some(NoticeKind::Delivered) {
                removed += usize::from(remove_event(db, entry.key)?);
            } else {
                remove_attempt(db, entry)?;
            }
        }
        if gone.len() == batch.entries.len() {
            db.prepare_cached("DELETE FROM webhook_notices WHERE id = ?1")?.execute([batch.id])?;
        } else {
            db.prepare_cached("UPDATE webhook_notices SET gone = gone + ?2 WHERE id = ?1")?
                .execute((batch.id, i64::try_from(gone.len()).unwrap_or(i64::MAX)))?;
        }
        left -= gone.len();
    }
    let mut change = Change::default();
    change.removed(removed);
    change.write(db)?;
    Ok(removed)
}

/// What is left of the front of the log.
struct Batch {
    id: i64,
    entries: Vec<Entry>,
}

fn oldest_batch(db: &Connection, horizon: Timestamp) -> rusqlite::Result<Option<Batch>> {
    db.prepare_cached(
        "SELECT id, gone, entries
         FROM (SELECT id, at, gone, entries FROM webhook_notices ORDER BY id LIMIT 1)
         WHERE at <= ?1",
    )?
    .query_row([horizon.as_micros()], |row| {
        let gone: i64 = row.get(1)?;
        let entries = notices::unpacked(row.get_ref(2)?.as_blob()?);
        let entries = entries.filter(|(place, _)| *place >= gone).map(|(_, entry)| entry).collect();
        Ok(Batch { id: row.get(0)?, entries })
    })
    .optional()
}

/// The attempt that an entry tells of, if it tells of one.
fn remove_attempt(db: &Connection, entry: &Entry) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM webhook_attempts WHERE event_key = ?1 AND lease = ?2")?
        .execute((entry.key.0, entry.lease))?;
    Ok(())
}

/// Removes a delivered event with all that is its own.
fn remove_event(db: &Connection, key: EventKey) -> rusqlite::Result<bool> {
    let message: Option<i64> = db
        .prepare_cached("DELETE FROM webhook_events WHERE id = ?1 RETURNING message_key")?
        .query_row([key.0], |row| row.get(0))
        .optional()?;
    let Some(message) = message else {
        return Ok(false);
    };
    db.prepare_cached("DELETE FROM webhook_attempts WHERE event_key = ?1")?.execute([key.0])?;
    // Index: webhook_audit_event.
    db.prepare_cached("DELETE FROM webhook_audit WHERE event_key = ?1")?.execute([key.0])?;
    // Index: webhook_events_message. A message goes with the last of its events.
    db.prepare_cached(
        "DELETE FROM webhook_messages
         WHERE key = ?1 AND NOT EXISTS (SELECT 1 FROM webhook_events WHERE message_key = ?1)",
    )?
    .execute([message])?;
    Ok(true)
}

/// Looks at the oldest of each.
fn is_more(db: &Connection, now: Timestamp, horizon: Option<Timestamp>) -> rusqlite::Result<bool> {
    let oldest_key = "SELECT EXISTS (SELECT 1 FROM webhook_idempotency WHERE forget_at <= ?1)";
    if db.prepare_cached(oldest_key)?.query_row([now.as_micros()], |row| row.get(0))? {
        return Ok(true);
    }
    let Some(horizon) = horizon else {
        return Ok(false);
    };
    db.prepare_cached("SELECT coalesce((SELECT at FROM webhook_notices ORDER BY id LIMIT 1) <= ?1, FALSE)")?
        .query_row([horizon.as_micros()], |row| row.get(0))
}
