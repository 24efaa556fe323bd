//! Removal of events in a terminal state: by an operator's discard, and by retention.

use posthaste_domain::{EventKey, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};

/// Removes an event with its attempts and its failure, and with its message if the message has no other event by its nature.
/// Returns false if the event does not exist.
pub(crate) fn remove_event(db: &Connection, key: EventKey) -> rusqlite::Result<bool> {
    let message: Option<i64> = db
        .prepare_cached("DELETE FROM webhook_events WHERE id = ?1 RETURNING message_key")?
        .query_row([key.0], |row| row.get(0))
        .optional()?;
    let Some(message) = message else {
        return Ok(false);
    };
    db.prepare_cached("DELETE FROM webhook_failures WHERE id = ?1")?.execute([key.0])?;
    db.prepare_cached("DELETE FROM webhook_attempts WHERE event_key = ?1")?.execute([key.0])?;
    // An event that was enqueued to a URL has a message of its own, under its own key. Retention removes the others.
    if message == key.0 {
        db.prepare_cached("DELETE FROM webhook_messages WHERE key = ?1")?.execute([message])?;
    }
    Ok(true)
}

/// Removes the audit log of an event.
pub(crate) fn remove_audit(db: &Connection, key: EventKey) -> rusqlite::Result<()> {
    // Index: webhook_audit_event.
    db.prepare_cached("DELETE FROM webhook_audit WHERE event_key = ?1")?.execute([key.0])?;
    Ok(())
}

/// Discarded events, the longest discarded first. Index: webhook_discarded_events_discarded_at.
pub(crate) const OLD_DISCARDS: &str = "
    SELECT id FROM webhook_discarded_events WHERE discarded_at <= ?1 ORDER BY discarded_at LIMIT ?2";

/// Forgets up to `rows_max` events that were discarded before the horizon, with their audit logs. Returns how many.
pub(crate) fn forget_old_discards(
    db: &Connection,
    horizon: Timestamp,
    rows_max: i64,
) -> rusqlite::Result<usize> {
    let keys: Vec<EventKey> = db
        .prepare_cached(OLD_DISCARDS)?
        .query_map((horizon.as_micros(), rows_max), |row| row.get(0).map(EventKey))?
        .collect::<Result<_, _>>()?;
    for key in &keys {
        remove_audit(db, *key)?;
        db.prepare_cached("DELETE FROM webhook_discarded_events WHERE id = ?1")?.execute([key.0])?;
    }
    Ok(keys.len())
}
