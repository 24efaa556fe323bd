//! Sending a message to an endpoint again.

use posthaste_domain::{
    ApplicationId, DestinationId, EndpointId, EndpointRef, EventId, EventKey, FailureKind, MessageRef,
    Timestamp,
};
use posthaste_store::{ActionRequest, ManualAction, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use super::message::{self, MessageDetails};
use super::{MessageKey, endpoint, find_message, publish};
use crate::destination_queue;
use crate::error::CallError;
use crate::operate;
use crate::row;
use crate::totals::{self, TotalsChange};

/// Attempts of an event that a resend adds.
const EXTRA_ATTEMPTS: u32 = 1;

pub(super) fn resend(
    db: &Connection,
    now: Timestamp,
    app: ApplicationId,
    message: &MessageRef,
    endpoint: &EndpointRef,
    actor: &str,
) -> Result<EventId, CallError> {
    let message_key = find_message(db, app, message)?;
    let destination = endpoint::find_enabled(db, app, endpoint)?;
    let details = message::read_details(db, message_key)?;
    if details.is_expunged {
        return Err(StoreError::PayloadExpunged { message: message.to_string() }.into());
    }
    let first = EventId::of_fan_out(details.id, destination);
    let request = ActionRequest::from(actor);
    if let Some(key) = message::find_event(db, &first)?
        && let Some(kind) = failure_kind(db, key)?
    {
        operate::reopen(db, now, key, kind, ManualAction::Resend, request)?;
        return Ok(first);
    }
    let event_id = if is_taken(db, &first)? { free_run(db, &first)? } else { first };
    let key = add_event(db, now, message_key, &details, destination, &event_id, EXTRA_ATTEMPTS, true)?;
    operate::record_audit(db, now, key, ManualAction::Resend, request, None)?;
    Ok(event_id)
}

/// Returns the first id of an extra event that no event has or had.
pub(crate) fn free_run(db: &Connection, first: &EventId) -> rusqlite::Result<EventId> {
    let mut run = 1;
    while is_taken(db, &first.with_run(run))? {
        run += 1;
    }
    Ok(first.with_run(run))
}

/// Adds an event that sends the message of a delivered event once more. The endpoint must be enabled.
pub(crate) fn add_replay(
    db: &Connection,
    now: Timestamp,
    app: ApplicationId,
    original: EventKey,
    endpoint: EndpointId,
    event_id: &EventId,
) -> Result<EventKey, CallError> {
    let destination = endpoint::find_enabled(db, app, &endpoint.into())?;
    let message = db
        .prepare_cached("SELECT message_key FROM webhook_events WHERE id = ?1")?
        .query_row([original.0], |row| row.get(0).map(MessageKey))?;
    let details = message::read_details(db, message)?;
    Ok(add_event(db, now, message, &details, destination, event_id, EXTRA_ATTEMPTS, true)?)
}

/// Returns the kind of failure of an event, if it has failed.
pub(super) fn failure_kind(db: &Connection, key: EventKey) -> rusqlite::Result<Option<FailureKind>> {
    db.prepare_cached("SELECT failure_kind FROM webhook_failures WHERE id = ?1")?
        .query_row([key.0], |row| row::decode(row, 0, FailureKind::from_name))
        .optional()
}

/// Returns whether an event has the id, or a discarded event had it. Indexes: webhook_events_event_id,
/// webhook_discarded_events_event_id.
pub(super) fn is_taken(db: &Connection, event_id: &EventId) -> rusqlite::Result<bool> {
    db.prepare_cached(
        "SELECT 1 FROM webhook_events WHERE event_id = ?1
         UNION ALL SELECT 1 FROM webhook_discarded_events WHERE event_id = ?1",
    )?
    .exists([event_id.as_str()])
}

/// Adds an event of a stored message: due now if a caller resends it, otherwise as the producer of the message asked for.
#[expect(clippy::too_many_arguments, reason = "each is a column of the event")]
pub(super) fn add_event(
    db: &Connection,
    now: Timestamp,
    message: MessageKey,
    details: &MessageDetails,
    destination: DestinationId,
    event_id: &EventId,
    max_attempts: u32,
    is_resend: bool,
) -> rusqlite::Result<EventKey> {
    let key = EventKey(totals::last_event_key(db)? + 1);
    let deliver_at = publish::due_at(details.deliver_at, now);
    db.prepare_cached(
        "INSERT INTO webhook_events
             (id, app_id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at,
              webhook_id, payment_request_id, session_id, stored_by, deliver_at)
         SELECT ?1, m.app_id, ?2, m.key, m.id, ?3, m.event_type, ?4, ?5, ?6, m.payment_request_id, m.session_id,
                m.stored_by, ?7
         FROM webhook_messages m WHERE m.key = ?8",
    )?
    .execute((
        key.0,
        event_id.as_str(),
        destination.0,
        max_attempts,
        now.as_micros(),
        EndpointId(destination).to_string(),
        Some(deliver_at.as_micros()).filter(|at| *at > now.as_micros()),
        message.0,
    ))?;
    let due = if is_resend { now } else { deliver_at };
    db.prepare_cached(
        "INSERT INTO webhook_queue (id, destination_id, app_id, next_attempt_at, updated_at, requeued_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute((
        key.0,
        destination.0,
        details.app.0,
        due.as_micros(),
        now.as_micros(),
        is_resend.then_some(now.as_micros()),
    ))?;
    let (entry, _) = destination_queue::find(db, key)?.expect("the queue row was just inserted");
    destination_queue::insert(db, &entry)?;
    let mut totals = TotalsChange::default();
    totals.add_enqueued();
    totals.write(db)?;
    Ok(key)
}
