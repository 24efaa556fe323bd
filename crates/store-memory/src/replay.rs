//! Sending a delivered event once more, and reading the payload of an event.

use posthaste_domain::{DeliveryStatus, EndpointId, EventId, Timestamp};
use posthaste_store::{ActionRequest, AuditView, EventContent, EventView, ManualAction, StoreError};

use crate::operate::record_audit;
use crate::registry::{add_extra_event, find_enabled};
use crate::state::{Row, State};

pub(crate) fn replay(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
) -> Result<EventView, StoreError> {
    let original = state.find_key(event_id)?;
    let first = state.rows[&original].first_event_id().clone();
    if let Some(key) = request.key
        && let Some((_, recorded)) = state.operations.get(key)
    {
        let added = state.find_key(&recorded.event_id)?;
        return recorded.require_replay_of(&first, state.rows[&added].view(added), key);
    }
    let row = state.rows[&original].clone();
    if row.status != DeliveryStatus::Delivered {
        return Err(StoreError::NotReplayable { event_id: event_id.clone(), status: row.status });
    }
    let new_id = state.free_run(&first);
    let key = match row.message_key {
        Some(message_key) => {
            let app = row.app.expect("an event of a message has an application");
            find_enabled(state, app, &EndpointId(row.destination_id).into())?;
            if state.registry.messages[&message_key].payload.is_none() {
                return Err(StoreError::ContentRemoved { event_id: event_id.clone() });
            }
            add_extra_event(state, now, message_key, row.destination_id, new_id)
        }
        None => state.add_row(Row {
            event_id: new_id,
            status: DeliveryStatus::Pending,
            attempts: 0,
            max_attempts: 1,
            claims: 0,
            last_attempted_at: None,
            delivered_at: None,
            created_at: now,
            deliver_at: now,
            updated_at: now,
            ..row
        }),
    };
    let audit =
        AuditView { action: ManualAction::Replay, actor: request.actor.to_owned(), at: now, reason: None };
    let added = state.row_mut(key).expect("the event was just added");
    added.next_attempt_at = Some(now);
    added.manual_last = Some(audit.clone());
    added.replay_of = Some(first);
    let view = added.view(key);
    state.row_mut(original).expect("the event was just read").manual_last = Some(audit.clone());
    record_audit(state, key, &view.event_id, request, audit.clone());
    state.audit.push((original, audit));
    Ok(view)
}

pub(crate) fn event_content(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    actor: &str,
    payload_bytes_max: usize,
) -> Result<EventContent, StoreError> {
    let key = state.find_key(event_id)?;
    let row = &state.rows[&key];
    if row.message_key.is_some_and(|message| state.registry.messages[&message].payload.is_none()) {
        return Err(StoreError::ContentRemoved { event_id: event_id.clone() });
    }
    let payload = state.payload(row);
    let content = EventContent {
        event: row.view(key),
        content_type: row.content_type.clone(),
        traceparent: row.traceparent.clone(),
        payload: payload.slice(..payload.len().min(payload_bytes_max)),
        payload_bytes: u64::try_from(payload.len()).unwrap_or(u64::MAX),
    };
    let action = ManualAction::ViewContent;
    state.audit.push((key, AuditView { action, actor: actor.to_owned(), at: now, reason: None }));
    Ok(content)
}
