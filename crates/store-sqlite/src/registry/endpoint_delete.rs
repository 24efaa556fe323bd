//! Deletion of endpoints, which cancels their pending events: some at once, the others by maintenance.

use posthaste_domain::{DestinationId, DisableReason, EventId, EventKey, Timestamp};
use posthaste_store::{ActionRequest, DELETE_CANCELS_MAX, DestinationAction, SYSTEM_ACTOR};
use rusqlite::Connection;

use super::endpoint;
use crate::claims;
use crate::destination::record_audit;
use crate::error::CallError;
use crate::operate;

/// Why pending events of a deleted endpoint are cancelled, in the audit log.
const DELETED: &str = "the endpoint was deleted";

/// Deletes an endpoint and cancels the first of its pending events.
pub(super) fn delete(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    actor: &str,
) -> Result<(), CallError> {
    endpoint::remove_subscriptions(db, id)?;
    db.prepare_cached(
        "UPDATE webhook_destinations
         SET disabled_reason = CASE WHEN disabled_at IS NULL THEN ?3 ELSE disabled_reason END,
             disabled_at = coalesce(disabled_at, ?2), paused_until = 9223372036854775807
         WHERE id = ?1",
    )?
    .execute((id.0, now.as_micros(), DisableReason::Manual.as_str()))?;
    db.prepare_cached(
        "UPDATE webhook_operations SET state = 'stopped', updated_at = ?2
         WHERE state = 'running' AND destination_id = ?1",
    )?
    .execute((id.0, now.as_micros()))?;
    record_audit(db, now, id, DestinationAction::Delete, actor, None, None)?;
    let cancelled = cancel_pending(db, now, id, actor, DELETE_CANCELS_MAX)?;
    db.prepare_cached(
        "UPDATE webhook_endpoints SET deleted_at = ?2, is_cancelling = ?3 WHERE destination_id = ?1",
    )?
    .execute((id.0, now.as_micros(), cancelled == DELETE_CANCELS_MAX))?;
    Ok(())
}

/// Deleted endpoints that may have pending events. Index: webhook_endpoints_cancelling.
pub(super) const CANCELLING: &str =
    "SELECT destination_id FROM webhook_endpoints WHERE is_cancelling ORDER BY destination_id";

/// Cancels up to `rows_max` pending events of deleted endpoints. Returns whether there may be more.
pub(crate) fn cancel_of_deleted(db: &Connection, now: Timestamp, rows_max: usize) -> Result<bool, CallError> {
    let cancelling: Vec<DestinationId> = db
        .prepare_cached(CANCELLING)?
        .query_map([], |row| row.get(0).map(DestinationId))?
        .collect::<Result<_, _>>()?;
    let mut left = rows_max;
    for id in cancelling {
        let cancelled = cancel_pending(db, now, id, SYSTEM_ACTOR, left)?;
        left -= cancelled;
        if left == 0 {
            return Ok(true);
        }
        db.prepare_cached("UPDATE webhook_endpoints SET is_cancelling = 0 WHERE destination_id = ?1")?
            .execute([id.0])?;
    }
    Ok(false)
}

/// Cancels up to `rows_max` pending events of a destination, in the order of their keys. Returns how many.
fn cancel_pending(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    actor: &str,
    rows_max: usize,
) -> Result<usize, CallError> {
    let pending = pending_events(db, id, rows_max)?;
    for key in &pending {
        cancel(db, now, *key, actor, DELETED)?;
    }
    Ok(pending.len())
}

/// Cancels a pending event.
pub(super) fn cancel(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    actor: &str,
    reason: &str,
) -> Result<(), CallError> {
    let event_id = db
        .prepare_cached("SELECT event_id FROM webhook_events WHERE id = ?1")?
        .query_row([key.0], |row| row.get(0).map(EventId::from_stored))?;
    operate::cancel(db, now, &event_id, ActionRequest::from(actor), Some(reason)).map(drop)
}

/// The events of a destination without a lease: first attempts by primary key, the others by key.
const WAITING: [&str; 3] = [
    "SELECT id FROM webhook_first_attempts
     WHERE destination_id = ?1 AND id >= (SELECT first_attempts_head FROM webhook_destinations WHERE id = ?1)
     ORDER BY id LIMIT ?2",
    "SELECT id FROM webhook_deferred WHERE destination_id = ?1 ORDER BY id LIMIT ?2",
    "SELECT id FROM webhook_retries WHERE destination_id = ?1 ORDER BY id LIMIT ?2",
];

/// Returns the first `rows_max` pending events of a destination, leased or not.
fn pending_events(db: &Connection, id: DestinationId, rows_max: usize) -> rusqlite::Result<Vec<EventKey>> {
    let limit = i64::try_from(rows_max).unwrap_or(i64::MAX);
    let mut pending = claims::leased_events(db, id)?;
    for sql in WAITING {
        let mut waiting = db.prepare_cached(sql)?;
        for key in waiting.query_map((id.0, limit), |row| row.get(0).map(EventKey))? {
            pending.push(key?);
        }
    }
    pending.sort_unstable();
    pending.truncate(rows_max);
    Ok(pending)
}
