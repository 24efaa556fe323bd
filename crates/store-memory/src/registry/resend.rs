//! Sending a message to an endpoint again.

use posthaste_domain::{
    ApplicationId, DeliveryStatus, EndpointRef, EventId, EventKey, MessageRef, Timestamp,
};
use posthaste_store::{ActionRequest, AuditView, ManualAction, StoreError};

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
    let is_taken = |id: &EventId| state.keys.contains_key(id) || state.discarded.contains_key(id);
    let mut candidates = std::iter::once(first.clone()).chain((1..).map(|run| first.with_run(run)));
    let event_id = candidates.find(|id| !is_taken(id)).expect("there are more numbers than events");
    let key = add_event(state, now, message_key, destination, event_id.clone(), EXTRA_ATTEMPTS);
    let audit = AuditView { action: ManualAction::Resend, actor: actor.to_owned(), at: now, reason: None };
    state.audit.push((key, audit.clone()));
    let row = state.row_mut(key).expect("the event was just added");
    row.next_attempt_at = Some(now);
    row.manual_last = Some(audit);
    Ok(event_id)
}

/// Reopens a failed event, due now.
pub(super) fn reopen(state: &mut State, now: Timestamp, key: EventKey, actor: &str) {
    operate::reopen(state, now, key, ManualAction::Resend, ActionRequest::from(actor));
}
