//! Forgetting what retention no longer keeps, a small step at a time.
//!
//! An event is delivered by an attempt that is recorded at that moment, and attempts are kept in the order in which they
//! were recorded. So one walk from the oldest attempt finds both what was delivered long ago and the old attempts of
//! events that stay. After the clock was set back a few may be kept for longer, by as much as it was set back; an index
//! by age would cost every settle for that.

use posthaste_domain::Timestamp;
use posthaste_store::{Maintained, Retention};
use rusqlite::{Connection, OptionalExtension as _};

use crate::fault::Fault;
use crate::totals::Change;

/// Removes at most `rows_max` of each: idempotency keys, attempts with the events that they delivered, and notices.
/// Counts the events.
pub(crate) fn maintain(db: &Connection, now: Timestamp, retention: &Retention) -> Result<Maintained, Fault> {
    let rows_max = i64::try_from(retention.rows_max).unwrap_or(i64::MAX);
    forget_keys(db, now, rows_max)?;
    let horizon = retention.keep.map(|keep| now.before(keep));
    let removed = match horizon {
        None => 0,
        Some(horizon) => {
            remove_notices(db, horizon, rows_max)?;
            remove_attempts(db, horizon, rows_max)?
        }
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

fn remove_notices(db: &Connection, horizon: Timestamp, rows_max: i64) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM webhook_notices
         WHERE id IN (SELECT id FROM webhook_notices ORDER BY id LIMIT ?2) AND at <= ?1",
    )?
    .execute((horizon.as_micros(), rows_max))?;
    Ok(())
}

/// The number of events that went with their attempts.
fn remove_attempts(db: &Connection, horizon: Timestamp, rows_max: i64) -> rusqlite::Result<usize> {
    let old: Vec<(i64, i64)> = db
        .prepare_cached(
            "SELECT id, event_key
             FROM (SELECT id, event_key, recorded_at FROM webhook_attempts ORDER BY id LIMIT ?2)
             WHERE recorded_at <= ?1",
        )?
        .query_map((horizon.as_micros(), rows_max), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut attempt = db.prepare_cached("DELETE FROM webhook_attempts WHERE id = ?1")?;
    let mut removed = 0;
    for (id, event_key) in old {
        attempt.execute([id])?;
        removed += usize::from(remove_event(db, horizon, event_key)?);
    }
    Ok(removed)
}

/// Removes the event with all that is its own, if it was delivered long enough ago.
fn remove_event(db: &Connection, horizon: Timestamp, key: i64) -> rusqlite::Result<bool> {
    let removed: Option<[u8; 16]> = db
        .prepare_cached(
            "DELETE FROM webhook_outbox_events
             WHERE id = ?1 AND delivery_status = 'delivered' AND delivered_at <= ?2
             RETURNING message_id",
        )?
        .query_row((key, horizon.as_micros()), |row| row.get(0))
        .optional()?;
    let Some(message_id) = removed else {
        return Ok(false);
    };
    // Index: webhook_attempts_token.
    db.prepare_cached("DELETE FROM webhook_attempts WHERE event_key = ?1")?.execute([key])?;
    // Index: webhook_audit_event.
    db.prepare_cached("DELETE FROM webhook_audit WHERE event_key = ?1")?.execute([key])?;
    // Indexes: webhook_messages_id, webhook_outbox_events_message. A message goes with the last of its events.
    db.prepare_cached(
        "DELETE FROM webhook_messages
         WHERE id = ?1 AND NOT EXISTS (SELECT 1 FROM webhook_outbox_events WHERE message_id = ?1)",
    )?
    .execute([message_id])?;
    let mut change = Change::default();
    change.removed();
    change.write(db)?;
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
    db.prepare_cached(
        "SELECT coalesce((SELECT recorded_at FROM webhook_attempts ORDER BY id LIMIT 1) <= ?1, FALSE)
             OR coalesce((SELECT at FROM webhook_notices ORDER BY id LIMIT 1) <= ?1, FALSE)",
    )?
    .query_row([horizon.as_micros()], |row| row.get(0))
}
