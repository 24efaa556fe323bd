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
        let may_lease = |key: &EventKey| {
            let row = &state.rows[key];
            let has_profile = state.destinations[&row.destination_id].profile_version > 0;
            !has_profile && row.is_ready(now) && !state.is_paused(row.destination_id, now)
        };
        let keys: Vec<EventKey> = keys.into_iter().filter(may_lease).collect();
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

/// Stores one event, due now or when its producer asked for.
fn insert(
    state: &mut State,
    now: Timestamp,
    event: &NewEvent,
    stored_by: Option<&str>,
) -> (EventKey, Receipt) {
    let message_id = MessageId::v7(now, state.random.random());
    let event_id = event.event_id().cloned().unwrap_or_else(|| EventId::from_message(message_id));
    let destination_id = find_or_add_destination(state, now, event.destination_url());
    let deliver_at = now.after(event.deliver_in());
    let row = Row {
        event_id: event_id.clone(),
        message_id,
        message_key: None,
        app: None,
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
        replay_of: None,
        status: DeliveryStatus::Pending,
        failure_kind: None,
        attempts: 0,
        max_attempts: event.max_attempts(),
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
    let key = state.add_row(row);
    (key, Receipt { event_id, status: DeliveryStatus::Pending, created_at: now })
}

/// Returns the destination of events that are enqueued to a URL. An endpoint with the same URL is another destination.
pub(crate) fn find_or_add_destination(
    state: &mut State,
    now: Timestamp,
    url: &DestinationUrl,
) -> DestinationId {
    let is_of_url = |destination: &Destination| destination.endpoint.is_none() && destination.url == *url;
    let existing = state.destinations.iter().find(|(_, destination)| is_of_url(destination));
    if let Some((id, _)) = existing {
        return *id;
    }
    state.add_destination(Destination::new(url.clone(), now))
}
