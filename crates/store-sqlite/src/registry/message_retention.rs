//! The end of messages: expunged payloads, and messages that no event refers to.

use posthaste_domain::{EventKey, Timestamp};
use rusqlite::Connection;

use super::{MessageKey, endpoint_delete};
use crate::error::CallError;

/// Why pending events of an expunged message are cancelled, in the audit log.
const EXPUNGED: &str = "the payload was removed";

/// Pending events of a message. Index: webhook_events_message.
pub(super) const PENDING: &str = "
    SELECT e.id FROM webhook_events e
    CROSS JOIN webhook_queue q ON q.id = e.id
    WHERE e.message_key = ?1 AND e.app_id > 0";

/// Removes the payload of a message, and cancels its pending events.
pub(super) fn expunge(
    db: &Connection,
    now: Timestamp,
    key: MessageKey,
    actor: &str,
) -> Result<(), CallError> {
    let mut pending: Vec<EventKey> = db
        .prepare_cached(PENDING)?
        .query_map([key.0], |row| row.get(0).map(EventKey))?
        .collect::<Result<_, _>>()?;
    pending.sort_unstable();
    for event in pending {
        endpoint_delete::cancel(db, now, event, actor, EXPUNGED)?;
    }
    Ok(remove_payload(db, key)?)
}

fn remove_payload(db: &Connection, key: MessageKey) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_messages SET payload = NULL, payload_expires_at = NULL WHERE key = ?1",
    )?
    .execute([key.0])?;
    Ok(())
}

/// Messages with an expired payload and no pending event. Indexes: webhook_messages_expiry, webhook_events_message.
pub(super) const EXPIRED: &str = "
    SELECT m.key FROM webhook_messages m
    WHERE m.payload_expires_at <= ?1
      AND NOT EXISTS (SELECT 1 FROM webhook_events e CROSS JOIN webhook_queue q ON q.id = e.id
                      WHERE e.message_key = m.key AND e.app_id > 0)
    ORDER BY m.payload_expires_at
    LIMIT ?2";

/// Removes up to `rows_max` expired payloads of messages that have no pending event. Returns whether there may be more.
pub(crate) fn expunge_expired(db: &Connection, now: Timestamp, rows_max: i64) -> rusqlite::Result<bool> {
    let expired: Vec<MessageKey> = db
        .prepare_cached(EXPIRED)?
        .query_map((now.as_micros(), rows_max), |row| row.get(0).map(MessageKey))?
        .collect::<Result<_, _>>()?;
    for key in &expired {
        remove_payload(db, *key)?;
    }
    Ok(i64::try_from(expired.len()).unwrap_or(i64::MAX) >= rows_max)
}

/// Where the next maintenance step continues to examine messages: after the one with this id.
#[derive(Debug, Clone, Default)]
pub(crate) struct MessageCursor(Vec<u8>);

/// Old messages after an id, each with whether it has no event. Ids begin with the time of publication, so the walk ends at the
/// first message that is not old. Indexes: webhook_messages_id, webhook_events_message.
pub(super) const EXAMINE: &str = "
    SELECT m.key, m.id, m.created_at <= ?2,
           NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.message_key = m.key AND e.app_id > 0)
    FROM webhook_messages m
    WHERE m.app_id > 0 AND m.id > ?1
    ORDER BY m.id
    LIMIT ?3";

/// Examines up to `rows_max` old messages after the cursor and removes those without an event. Advances the cursor, or resets it
/// at the end of the old messages. Returns whether there are more to examine.
pub(crate) fn remove_old(
    db: &Connection,
    cursor: &mut MessageCursor,
    horizon: Timestamp,
    rows_max: i64,
) -> rusqlite::Result<bool> {
    let mut examine = db.prepare_cached(EXAMINE)?;
    let examined: Vec<(MessageKey, Vec<u8>, bool, bool)> = examine
        .query_map((&cursor.0, horizon.as_micros(), rows_max), |row| {
            Ok((MessageKey(row.get(0)?), row.get(1)?, row.get(2)?, row.get(3)?))
        })?
        .collect::<Result<_, _>>()?;
    let old = examined.iter().take_while(|(_, _, is_old, _)| *is_old).count();
    for (key, _, _, is_unused) in &examined[..old] {
        if *is_unused {
            db.prepare_cached("DELETE FROM webhook_messages WHERE key = ?1")?.execute([key.0])?;
        }
    }
    let has_more = i64::try_from(old).unwrap_or(i64::MAX) >= rows_max;
    let last = examined.get(..old).and_then(<[_]>::last).filter(|_| has_more);
    *cursor = MessageCursor(last.map_or_else(Vec::new, |(_, id, _, _)| id.clone()));
    Ok(has_more)
}
