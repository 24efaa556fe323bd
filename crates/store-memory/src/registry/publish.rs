//! Publishing: a message, and an event for each endpoint that subscribes to it.

use bytes::Bytes;
use posthaste_domain::{
    ApplicationId, DeliveryStatus, DestinationId, EventId, EventKey, MessageId, NewMessage, Timestamp,
};
use posthaste_store::{AppScope, Publication, PublishRequest, StoreError};
use rand::RngExt as _;

use super::{Message, MessageKey, application};
use crate::state::{Row, State};

/// Publishes a message. Everything is checked before anything is stored.
pub(super) fn publish(
    state: &mut State,
    now: Timestamp,
    request: &PublishRequest,
) -> Result<Publication, StoreError> {
    let app = find_or_create_app(state, now, request)?;
    let message = &request.message;
    let endpoints: Vec<DestinationId> = match &request.only_endpoint {
        Some(endpoint) => vec![find_enabled(state, app, endpoint)?],
        None => matching(state, app, message),
    };
    if let Some(uid) = &message.uid
        && state.registry.messages.values().any(|other| other.app == app && other.uid.as_ref() == Some(uid))
    {
        return Err(StoreError::UidTaken { uid: uid.to_string() });
    }
    let key = add_message(state, now, app, message, request.stored_by.as_deref());
    for endpoint in &endpoints {
        let event_id = EventId::of_fan_out(state.registry.messages[&key].id, *endpoint);
        add_event(state, now, key, *endpoint, event_id, message.max_attempts);
    }
    let view = state.registry.messages[&key].view(true);
    Ok(Publication { message: view, event_count: u64::try_from(endpoints.len()).unwrap_or(u64::MAX) })
}

/// Finds the application, or creates the one that the request brings along. A request for a new application cannot fail later,
/// unless it names an endpoint.
fn find_or_create_app(
    state: &mut State,
    now: Timestamp,
    request: &PublishRequest,
) -> Result<ApplicationId, StoreError> {
    let found = state.find_app(AppScope { org: &request.org, app: &request.app });
    match (&request.create_app, request.app.uid()) {
        (Some(new), Some(uid)) if found.is_err() && new.uid.as_ref() == Some(uid) => {
            if let Some(endpoint) = &request.only_endpoint {
                return Err(StoreError::EndpointNotFound { endpoint: endpoint.to_string() });
            }
            Ok(application::add(state, now, &request.org, new).id)
        }
        _ => found,
    }
}

/// Finds an endpoint, and refuses a disabled one.
pub(crate) fn find_enabled(
    state: &State,
    app: ApplicationId,
    endpoint: &posthaste_domain::EndpointRef,
) -> Result<DestinationId, StoreError> {
    let id = state.find_endpoint(app, endpoint)?;
    match state.endpoint_view(id).disabled {
        Some(_) => Err(StoreError::EndpointDisabled { endpoint: endpoint.to_string() }),
        None => Ok(id),
    }
}

/// Returns the enabled endpoints of an application that subscribe to a message.
fn matching(state: &State, app: ApplicationId, message: &NewMessage) -> Vec<DestinationId> {
    let enabled = state.live_endpoints().filter(|(_, row)| row.app == app && row.disabled.is_none());
    let matching =
        enabled.filter(|(_, row)| row.subscription.matches(&message.event_type, &message.channels));
    matching.map(|(id, _)| id).collect()
}

fn add_message(
    state: &mut State,
    now: Timestamp,
    app: ApplicationId,
    message: &NewMessage,
    stored_by: Option<&str>,
) -> MessageKey {
    let id = MessageId::v7(now, state.random.random());
    state.registry.last_message += 1;
    state.revision += 1;
    let key = MessageKey(state.registry.last_message);
    let row = Message {
        id,
        app,
        uid: message.uid.clone(),
        event_type: message.event_type.clone(),
        channels: message.channels.clone(),
        tags: message.tags.clone(),
        payload: Some(message.payload.clone()),
        content_type: message.content_type.clone(),
        payment_request_id: message.payment_request_id.clone(),
        session_id: message.session_id.clone(),
        traceparent: message.traceparent.clone(),
        stored_by: stored_by.map(str::to_owned),
        max_attempts: message.max_attempts,
        created_at: now,
        deliver_at: now.after(message.deliver_in),
        payload_expires_at: now.after(message.payload_retention),
    };
    state.registry.messages.insert(key, row);
    key
}

/// Adds an event of a message, due now or when its producer asked for.
pub(super) fn add_event(
    state: &mut State,
    now: Timestamp,
    message_key: MessageKey,
    destination_id: DestinationId,
    event_id: EventId,
    max_attempts: u32,
) -> EventKey {
    let message = &state.registry.messages[&message_key];
    let deliver_at = message.deliver_at.max(now);
    let row = Row {
        event_id,
        message_id: message.id,
        message_key: Some(message_key),
        app: Some(message.app),
        destination_id,
        destination_url: state.destinations[&destination_id].url.clone(),
        event_type: message.event_type.as_str().to_owned(),
        payload: Bytes::new(),
        content_type: message.content_type.clone(),
        payment_request_id: message.payment_request_id.clone(),
        webhook_id: Some(posthaste_domain::EndpointId(destination_id).to_string()),
        session_id: message.session_id.clone(),
        traceparent: message.traceparent.clone(),
        stored_by: message.stored_by.clone(),
        replay_of: None,
        status: DeliveryStatus::Pending,
        failure_kind: None,
        attempts: 0,
        max_attempts,
        claims: 0,
        lost_leases: 0,
        next_attempt_at: Some(deliver_at),
        lease: None,
        last_error: None,
        last_attempted_at: None,
        delivered_at: None,
        manual_last: None,
        created_at: now,
        deliver_at,
        updated_at: now,
    };
    state.add_row(row)
}
