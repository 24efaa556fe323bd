//! Attempts of messages and endpoints.

use std::cmp::Reverse;

use posthaste_domain::{
    ApplicationId, AttemptId, DestinationId, EndpointId, EventKey, EventTypeName, MessageRef, Timestamp,
};
use posthaste_store::{AttemptFilter, AttemptRecord, AttemptsOf, List, ListRequest, StoreError};

use super::MessageKey;
use crate::read::attempt_view;
use crate::state::{Attempt, Row, State};

/// The position of an attempt in a list: when it was recorded, and among those of one settle its event.
type Position = (Timestamp, EventKey, u64);

fn position(attempt: &Attempt) -> Position {
    (attempt.recorded_at, attempt.key, attempt.revision)
}

fn record(row: &Row, attempt: &Attempt) -> AttemptRecord {
    AttemptRecord {
        id: AttemptId { event: attempt.key, token: attempt.transition.token() },
        event_id: row.event_id.clone(),
        message: row.message_id,
        event_type: EventTypeName::from_stored(row.event_type.clone()),
        endpoint: EndpointId(row.destination_id),
        url: row.destination_url.clone(),
        attempt: attempt_view(attempt),
    }
}

/// Lists attempts, most recently recorded first.
pub(super) fn list(
    state: &State,
    app: ApplicationId,
    filter: &AttemptFilter,
    request: &ListRequest<AttemptId>,
) -> Result<List<AttemptRecord>, StoreError> {
    let message: Option<MessageKey> = match &filter.of {
        AttemptsOf::Message(message) => Some(state.find_message(app, message)?),
        AttemptsOf::Endpoint(_) => None,
    };
    let find_endpoint = |endpoint| state.find_endpoint(app, endpoint);
    let of_endpoint: Option<DestinationId> = match &filter.of {
        AttemptsOf::Message(_) => None,
        AttemptsOf::Endpoint(endpoint) => Some(find_endpoint(endpoint)?),
    };
    let only: Option<DestinationId> = filter.endpoint.as_ref().map(find_endpoint).transpose()?;
    let position_of = |id: &AttemptId| {
        let attempt = state.attempts.get(&id.token).filter(|attempt| attempt.key == id.event);
        attempt.map(position)
    };
    let Some(request) = request.try_map(position_of) else { return Ok(List::empty()) };
    let is_wanted = |row: &Row| {
        row.app == Some(app)
            && message.is_none_or(|message| row.message_key == Some(message))
            && of_endpoint.into_iter().chain(only).all(|endpoint| row.destination_id == endpoint)
    };
    let mut found: Vec<(Position, AttemptRecord)> = Vec::new();
    for attempt in state.attempts.values() {
        let Some(row) = state.rows.get(&attempt.key).filter(|row| is_wanted(row)) else { continue };
        let key = row.message_key.expect("an event of an application has a message");
        let record = record(row, attempt);
        if filter.includes(&record, &state.registry.messages[&key].channels) {
            found.push((position(attempt), record));
        }
    }
    found.sort_by_key(|(position, _)| Reverse(*position));
    let page = request.cut(found, |(position, _), from| Reverse(*position).cmp(&Reverse(*from)));
    let items = page.items.into_iter().map(|(_, record)| record).collect();
    Ok(List { items, done: page.done })
}

/// Finds one attempt of a message.
pub(super) fn find(
    state: &State,
    app: ApplicationId,
    message: &MessageRef,
    id: AttemptId,
) -> Result<AttemptRecord, StoreError> {
    let message = state.find_message(app, message)?;
    let attempt = state.attempts.get(&id.token).filter(|attempt| attempt.key == id.event);
    let found = attempt.and_then(|attempt| Some((state.rows.get(&attempt.key)?, attempt)));
    let of_message = found.filter(|(row, _)| row.message_key == Some(message));
    let not_found = || StoreError::AttemptNotFound { attempt: id.to_string() };
    of_message.map(|(row, attempt)| record(row, attempt)).ok_or_else(not_found)
}
