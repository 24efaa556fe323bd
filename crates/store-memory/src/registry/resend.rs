//! Sending a message to an endpoint again.

use posthaste_domain::{
    ApplicationId, DeliveryStatus, DestinationId, EndpointRef, EventId, EventKey, MessageRef, Timestamp,
};
use posthaste_store::{ActionRequest, AuditView, ManualAction, StoreError};

use super::MessageKey;
use super::publish::{add_event, find_enabled};
use crate::operate;
use crate::state::State;

/// Attempts of an event that a resend adds.
const EXTRA_ATTEMPTS: u32 = 1;

pub(super) fn resend(
    state: &mut State,
    now: Timestamp,
    app: ApplicationId,
    message: &MessageRef,
    endpoint: &EndpointRef,
    actor: &str,
) -> Result<EventId, StoreError> {
    let message_key = state.find_message(app, message)?;
    let destination = find_enabled(state, app, endpoint)?;
    let row = &state.registry.messages[&message_key];
    if row.payload.is_none() {
        return Err(StoreError::PayloadExpunged { message: message.to_string() });
    }
    let first = EventId::of_fan_out(row.id, destination);
    let status = state.keys.get(&first).map(|key| state.rows[key].status);
    if status == Some(DeliveryStatus::Failed) {
        reopen(state, now, state.keys[&first], actor);
        return Ok(first);
    }
    let is_taken = state.keys.contains_key(&first) || state.discarded.contains_key(&first);
    let event_id = if is_taken { state.free_run(&first) } else { first };
    let key = add_extra_event(state, now, message_key, destination, event_id.clone());
    let audit = AuditView { action: ManualAction::Resend, actor: actor.to_owned(), at: now, reason: None };
    state.audit.push((key, audit.clone()));
    let row = state.row_mut(key).expect("the event was just added");
    row.next_attempt_at = Some(now);
    row.manual_last = Some(audit);
    Ok(event_id)
}

/// Adds an event with the attempts of a resend.
pub(crate) fn add_extra_event(
    state: &mut State,
    now: Timestamp,
    message: MessageKey,
    destination: DestinationId,
    event_id: EventId,
) -> EventKey {
    add_event(state, now, message, destination, event_id, EXTRA_ATTEMPTS)
}

/// Reopens a failed event, due now.
pub(super) fn reopen(state: &mut State, now: Timestamp, key: EventKey, actor: &str) {
    operate::reopen(state, now, key, ManualAction::Resend, ActionRequest::from(actor));
}
