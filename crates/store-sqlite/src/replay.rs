//! Sending a delivered event once more, and reading the payload of an event.

use bytes::Bytes;
use posthaste_domain::{DeliveryStatus, DestinationId, EndpointId, EventId, EventKey, Timestamp};
use posthaste_store::{ActionRequest, EventContent, EventView, ManualAction, RecordedAction, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::destination_queue;
use crate::error::CallError;
use crate::operate::{RECORDED_ACTION, record_audit};
use crate::read;
use crate::registry::resend;
use crate::row;
use crate::totals::{self, TotalsChange};

/// Sends a delivered event once more.
pub(crate) fn replay(
    db: &Connection,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
) -> Result<EventView, CallError> {
    let original = find(db, event_id)?;
    let first = original.first_event_id();
    if let Some(key) = request.key
        && let Some(recorded) = find_recorded(db, key)?
    {
        let added = find(db, &recorded.event_id)?;
        return Ok(recorded.require_replay_of(first, added, key)?);
    }
    if original.status != DeliveryStatus::Delivered {
        let status = original.status;
        return Err(StoreError::NotReplayable { event_id: event_id.clone(), status }.into());
    }
    if !has_payload(db, original.key)? {
        return Err(StoreError::ContentRemoved { event_id: event_id.clone() }.into());
    }
    let new_id = resend::free_run(db, first)?;
    let key = match original.app {
        Some(app) => {
            resend::add_replay(db, now, app, original.key, EndpointId(original.destination_id), &new_id)?
        }
        None => add_event(db, now, original.key, original.destination_id, &new_id)?,
    };
    db.prepare_cached("UPDATE webhook_events SET replay_of = ?2 WHERE id = ?1")?
        .execute((key.0, first.as_str()))?;
    record_audit(db, now, key, ManualAction::Replay, request, None)?;
    record_audit(db, now, original.key, ManualAction::Replay, request.actor.into(), None)?;
    Ok(row::read_event(db, key)?)
}

fn find(db: &Connection, event_id: &EventId) -> Result<EventView, CallError> {
    let key = db
        .prepare_cached("SELECT id FROM webhook_events WHERE event_id = ?1")?
        .query_row([event_id.as_str()], |row| row.get(0).map(EventKey))
        .optional()?;
    match key {
        Some(key) => Ok(row::read_event(db, key)?),
        None => Err(read::explain_missing(db, event_id)?.into()),
    }
}

fn find_recorded(db: &Connection, operation_key: &str) -> rusqlite::Result<Option<RecordedAction>> {
    db.prepare_cached(RECORDED_ACTION)?
        .query_row([operation_key], |row| {
            Ok(RecordedAction { event_id: EventId::from_stored(row.get(4)?), audit: row::audit(row)? })
        })
        .optional()
}

fn has_payload(db: &Connection, key: EventKey) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM webhook_events e CROSS JOIN webhook_messages m ON m.key = e.message_key
         WHERE e.id = ?1 AND m.payload IS NOT NULL",
    )?
    .exists([key.0])
}

/// Adds a copy of an event that was enqueued to a URL, with a message of its own, one attempt, and due now.
fn add_event(
    db: &Connection,
    now: Timestamp,
    original: EventKey,
    destination: DestinationId,
    event_id: &EventId,
) -> rusqlite::Result<EventKey> {
    let key = EventKey(totals::last_event_key(db)? + 1);
    db.prepare_cached(
        "INSERT INTO webhook_messages
             (key, id, event_type, content_type, payment_request_id, session_id, traceparent, created_at, payload)
         SELECT ?2, m.id, m.event_type, m.content_type, m.payment_request_id, m.session_id, m.traceparent, ?3, m.payload
         FROM webhook_events e CROSS JOIN webhook_messages m ON m.key = e.message_key
         WHERE e.id = ?1",
    )?
    .execute((original.0, key.0, now.as_micros()))?;
    db.prepare_cached(
        "INSERT INTO webhook_events
             (id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at, webhook_id,
              payment_request_id, session_id, stored_by)
         SELECT ?2, ?3, ?2, message_id, destination_id, event_type, 1, ?4, webhook_id, payment_request_id, session_id,
                stored_by
         FROM webhook_events WHERE id = ?1",
    )?
    .execute((original.0, key.0, event_id.as_str(), now.as_micros()))?;
    db.prepare_cached(
        "INSERT INTO webhook_queue (id, destination_id, next_attempt_at, updated_at, requeued_at)
         VALUES (?1, ?2, ?3, ?3, ?3)",
    )?
    .execute((key.0, destination.0, now.as_micros()))?;
    let (entry, _) = destination_queue::find(db, key)?.expect("the queue row was just inserted");
    destination_queue::insert(db, &entry)?;
    let mut totals = TotalsChange::default();
    totals.add_enqueued();
    totals.write(db)?;
    Ok(key)
}

/// Reads the beginning of an event's payload, and records the look.
pub(crate) fn event_content(
    db: &Connection,
    now: Timestamp,
    event_id: &EventId,
    actor: &str,
    payload_bytes_max: usize,
) -> Result<EventContent, CallError> {
    let event = find(db, event_id)?;
    let bytes_max = i64::try_from(payload_bytes_max).unwrap_or(i64::MAX);
    let content = db
        .prepare_cached(
            "SELECT m.content_type, m.traceparent, substr(m.payload, 1, ?2), length(m.payload)
             FROM webhook_events e CROSS JOIN webhook_messages m ON m.key = e.message_key
             WHERE e.id = ?1 AND m.payload IS NOT NULL",
        )?
        .query_row((event.key.0, bytes_max), |row| {
            Ok(EventContent {
                content_type: row.get(0)?,
                traceparent: row.get(1)?,
                payload: Bytes::copy_from_slice(row.get_ref(2)?.as_blob()?),
                payload_bytes: row::unsigned(row, 3)?,
                event: event.clone(),
            })
        })
        .optional()?;
    let Some(content) = content else {
        return Err(StoreError::ContentRemoved { event_id: event_id.clone() }.into());
    };
    record_audit(db, now, event.key, ManualAction::ViewContent, actor.into(), None)?;
    Ok(content)
}
