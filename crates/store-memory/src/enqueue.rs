//! Storing new events.

use std::collections::BTreeSet;

use posthaste_domain::{
    DeliveryStatus, DestinationId, DestinationUrl, EventId, EventKey, MessageId, NewEvent, Timestamp,
};
use posthaste_store::{EnqueueRequest, EnqueueResponse, Receipt, StoreError};
use rand::RngExt as _;

use crate::claim::grant_enqueued;
use crate::state::{Destination, IdempotencyEntry, Row, State};

pub(crate) fn enqueue(
    state: &mut State,
    now: Timestamp,
    request: &EnqueueRequest,
) -> Result<EnqueueResponse, StoreError> {
    if let Some(replay) = replay(state, now, request)? {
        return Ok(replay);
    }
    check_event_ids(state, &request.events)?;
    let stored_by = request.stored_by.as_deref();
    let (keys, receipts): (Vec<EventKey>, Vec<Receipt>) =
        request.events.iter().map(|event| insert(state, now, event, stored_by)).unzip();
    let leases = request.lease.as_ref().map_or_else(Vec::new, |lease| {
        let is_paused = |key: &EventKey| state.is_paused(state.rows[key].destination_id, now);
        let keys: Vec<EventKey> = keys.into_iter().filter(|key| !is_paused(key)).collect();
        grant_enqueued(state, now, lease, &keys)
    });
    if let Some(idempotency) = &request.idempotency {
        let entry = IdempotencyEntry::new(idempotency, receipts.clone(), now);
        state.idempotency.insert(idempotency.key.clone(), entry);
    }
    Ok(EnqueueResponse { replayed: false, receipts, leases })
}

/// Returns the first response to a request with the same key, if the key is still kept.
fn replay(
    state: &State,
    now: Timestamp,
    request: &EnqueueRequest,
) -> Result<Option<EnqueueResponse>, StoreError> {
    let Some(idempotency) = &request.idempotency else {
        return Ok(None);
    };
    match state.idempotency.get(&idempotency.key).filter(|entry| entry.expires_at > now) {
        None => Ok(None),
        Some(entry) if entry.fingerprint == idempotency.fingerprint => {
            Ok(Some(EnqueueResponse { replayed: true, receipts: entry.receipts.clone(), leases: Vec::new() }))
        }
        Some(_) => Err(StoreError::IdempotencyConflict { key: idempotency.key.clone() }),
    }
}

/// Refuses an event id that is stored already, belonged to a discarded event, or occurs twice in the request.
fn check_event_ids(state: &State, events: &[NewEvent]) -> Result<(), StoreError> {
    let mut seen = BTreeSet::new();
    match events.iter().filter_map(NewEvent::event_id).find(|event_id| {
        state.keys.contains_key(*event_id)
            || state.discarded.contains_key(*event_id)
            || !seen.insert(*event_id)
    }) {
        Some(taken) => Err(StoreError::EventIdTaken { event_id: taken.clone() }),
        None => Ok(()),
    }
}

/// Stores one event, due now.
fn insert(
    state: &mut State,
    now: Timestamp,
    event: &NewEvent,
    stored_by: Option<&str>,
) -> (EventKey, Receipt) {
    let message_id = MessageId::v7(now, state.random.random());
    let event_id = event.event_id().cloned().unwrap_or_else(|| EventId::from_message(message_id));
    let destination_id = find_or_add_destination(state, now, event.destination_url());
    let row = Row {
        event_id: event_id.clone(),
        message_id,
        destination_id,
        destination_url: event.destination_url().clone(),
        event_type: event.event_type().to_owned(),
        payload: event.payload().clone(),
        content_type: event.content_type().to_owned(),
        payment_request_id: event.payment_request_id().map(str::to_owned),
        webhook_id: event.webhook_id().map(str::to_owned),
        session_id: event.session_id().map(str::to_owned),
        traceparent: event.traceparent().map(str::to_owned),
        stored_by: stored_by.map(str::to_owned),
        status: DeliveryStatus::Pending,
        failure_kind: None,
        attempts: 0,
        max_attempts: event.max_attempts(),
        claims: 0,
        lost_leases: 0,
        next_attempt_at: Some(now),
        lease: None,
        last_error: None,
        last_attempted_at: None,
        delivered_at: None,
        manual_last: None,
        created_at: now,
        updated_at: now,
    };
    state.last_key += 1;
    state.revision += 1;
    let key = EventKey(state.last_key);
    state.rows.insert(key, row);
    state.keys.insert(event_id.clone(), key);
    (key, Receipt { event_id, status: DeliveryStatus::Pending, created_at: now })
}

fn find_or_add_destination(state: &mut State, now: Timestamp, url: &DestinationUrl) -> DestinationId {
    let existing = state.destinations.iter().find(|(_, destination)| destination.url == *url);
    if let Some((id, _)) = existing {
        return *id;
    }
    state.last_destination += 1;
    let id = DestinationId(state.last_destination);
    state.destinations.insert(id, Destination::new(url.clone(), now));
    id
}
