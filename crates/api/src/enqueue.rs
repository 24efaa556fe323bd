//! Enqueues events: one, or an array of which either all are stored or none.

mod request;

use std::fmt::Display;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri};
use posthaste_domain::{InvalidEvent, NewEvent, Timestamp, TraceParent};
use posthaste_store::{EnqueueRequest, EnqueueResponse, Idempotency, Receipt, StoreError};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::access::{Authorized, Enqueue};
use crate::api::{ApiState, EnqueueSettings};
use crate::body::{self, RequestBody};
use crate::error::ApiError;
use crate::idempotency::{self, IdempotencyKey};
use crate::json;
use crate::query::QueryParameters;
use crate::registry::store_now;
use crate::timestamp::Rfc3339;

use request::{EnqueueBody, EventList, EventRequest, WrappedEvents};

/// Maximum size of a body, unless the configured maximum of one payload is larger. The events of an array share it.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;
/// Maximum size of everything in an event but its payload.
const EVENT_OVERHEAD_BYTES: usize = 64 << 10;

/// An event that was stored.
#[derive(Serialize, ToSchema)]
#[schema(as = Accepted)]
pub(crate) struct AcceptedEvent {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(value_type = crate::event::DeliveryStatusSchema)]
    delivery_status: &'static str,
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T11:29:00.000000Z")]
    created_at: Rfc3339,
}

/// The events that were stored, in the order of the request.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedMany)]
pub(crate) struct AcceptedEvents {
    events: Vec<AcceptedEvent>,
}

/// The response body. It has the shape of the request: one event for one, a list for an array.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = AcceptedOneOrMany)]
pub(crate) enum AcceptedBody {
    One(AcceptedEvent),
    Many(AcceptedEvents),
}

/// Enqueue events
///
/// Enqueues one event, or an array of up to 1,000 events, of which either all are stored or none. `{"events": […]}` is
/// accepted beside the bare array. The events are durable when the response arrives. The payload is any JSON value. Receivers
/// get its exact bytes, with number notation, key order and white space unchanged. If a response does not arrive, repeat the
/// request with the same `Idempotency-Key`. A `traceparent` header is sent along with every delivery. `deliver_at` sets the time of
/// the first attempt.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/events", tag = "Events", operation_id = "enqueueEvents",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 printable ASCII characters, remembered for a day unless configured otherwise. Repeating a request with the same key and body returns the first response", example = "order-17-created"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context of the request", example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ),
    request_body(content = EnqueueBody<'_>, examples(
        ("one" = (summary = "One event", value = json!({
            "destination_url": "https://receiver.example/hook", "event_type": "invoice.paid",
            "payload": {"invoice": "in_17", "amount": 12.50}, "payment_request_id": "pr_17"
        }))),
        ("many" = (summary = "Several events, all or none", value = json!([
            {"destination_url": "https://receiver.example/hook", "event_type": "invoice.paid", "payload": {"invoice": "in_17"}},
            {"destination_url": "https://other.example/hook", "event_type": "invoice.paid", "payload": {"invoice": "in_17"},
             "event_id": "in_17-to-other", "max_attempts": 3, "deliver_at": "2026-01-31T11:29:00Z"}
        ]))),
    )),
    responses(
        (status = 200, description = "A repeated request: the first response to this key and body", body = AcceptedBody),
        (status = 202, description = "The events are stored. They are due now, or at their `deliver_at`", body = AcceptedBody),
    ),
)]
pub(crate) async fn enqueue(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Enqueue>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    QueryParameters::require_none(&uri)?;
    let key = IdempotencyKey::parse(&headers, caller.key_name())?;
    body::require_json(&headers)?;
    let settings = state.enqueue_settings;
    let bytes_max = BODY_BYTES_MAX.max(settings.payload_bytes_max.saturating_add(EVENT_OVERHEAD_BYTES));
    let RequestBody { bytes, _memory } = state.bodies.read(&*state.clock, body, bytes_max).await?;
    let body: EnqueueBody<'_> = json::parse(&bytes)?;
    // Only an event with a time of its own needs the clock. Times count from the store's clock, as everywhere.
    let now = if body.has_deliver_at() { store_now(&state).await? } else { Timestamp::default() };
    let (events, is_array) = accept_events(body, &bytes, traceparent(&headers).as_deref(), now, settings)?;
    for (index, event) in events.iter().enumerate() {
        let checked = state.destination_check.check(event.destination_url());
        checked.map_err(|reason| invalid_field("destination_url", &reason, is_array.then_some(index)))?;
    }
    let event_ids: Vec<_> = events.iter().map(|event| event.event_id().cloned()).collect();
    let idempotency = key.as_ref().map(|key| idempotency_record(key, &bytes, settings));
    let stored_by = caller.key_name().map(str::to_owned);
    match state.store.enqueue(EnqueueRequest { events, idempotency, stored_by, lease: None }).await {
        Ok(enqueued) => Ok(respond(enqueued, is_array)),
        Err(StoreError::EventIdTaken { event_id }) => {
            // Of two equal ids in one request, the second is the duplicate.
            let index = event_ids.iter().rposition(|id| id.as_ref() == Some(&event_id)).filter(|_| is_array);
            Err(ApiError::EventIdTaken { event_id, index })
        }
        Err(error) => Err(idempotency::store_error(error, key)),
    }
}

/// Validates all events of a body. One invalid event rejects the whole body. Also returns whether the body is an array.
fn accept_events(
    body: EnqueueBody<'_>,
    bytes: &Bytes,
    traceparent: Option<&str>,
    now: Timestamp,
    settings: EnqueueSettings,
) -> Result<(Vec<NewEvent>, bool), ApiError> {
    let validate = |event: EventRequest<'_>, index: Option<usize>| {
        let deliver_in = event.deliver_in(now).map_err(|error| invalid_field("deliver_at", &error, index))?;
        let spec = event.into_spec(bytes, traceparent, deliver_in);
        NewEvent::accept(spec, settings.payload_bytes_max, settings.default_max_attempts)
            .map_err(|error| invalid_event(&error, index))
    };
    match body {
        EnqueueBody::One(event) => Ok((vec![validate(event, None)?], false)),
        EnqueueBody::Many(EventList(events))
        | EnqueueBody::Wrapped(WrappedEvents { events: EventList(events) }) => {
            let events = events.into_iter().enumerate().map(|(index, event)| validate(event, Some(index)));
            Ok((events.collect::<Result<_, _>>()?, true))
        }
    }
}

/// The error for an event that breaks a rule; `index` is its position in the array.
fn invalid_event(error: &InvalidEvent, index: Option<usize>) -> ApiError {
    let field = match error {
        InvalidEvent::Destination(_) => "destination_url",
        InvalidEvent::Id(_) => "event_id",
        InvalidEvent::Label { field, .. } => field,
        InvalidEvent::PayloadTooLarge { .. } => "payload",
        InvalidEvent::MaxAttempts(_) => "max_attempts",
        InvalidEvent::DeliverIn(_) => "deliver_at",
    };
    match (error, invalid_field(field, error, index)) {
        (InvalidEvent::PayloadTooLarge { .. }, ApiError::Invalid { message, details }) => {
            ApiError::TooLarge { message, details }
        }
        (_, error) => error,
    }
}

/// The error for one field of an event; `index` is the event's position in the array.
fn invalid_field(field: &str, reason: &dyn Display, index: Option<usize>) -> ApiError {
    let message = index.map_or_else(|| reason.to_string(), |index| format!("event {index}: {reason}"));
    let details: Value =
        index.map_or_else(|| json!({ "field": field }), |index| json!({ "index": index, "field": field }));
    ApiError::invalid_at(message, details)
}

/// Builds the idempotency record of a request.
fn idempotency_record(key: &IdempotencyKey, body: &Bytes, settings: EnqueueSettings) -> Idempotency {
    Idempotency {
        key: key.stored.clone(),
        fingerprint: Sha256::digest(body).into(),
        keep_for: settings.idempotency_retention,
    }
}

/// Returns a valid `traceparent` header. As the W3C specification requires, an invalid or repeated header is ignored.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let mut values = headers.get_all("traceparent").iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    TraceParent::parse(value.to_str().ok()?).map(|parent| parent.to_string())
}

fn respond(enqueued: EnqueueResponse, is_array: bool) -> Response {
    let status = if enqueued.replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut events = enqueued.receipts.into_iter().map(AcceptedEvent::from);
    let body = match (is_array, events.next()) {
        (false, Some(event)) => AcceptedBody::One(event),
        (_, first) => {
            AcceptedBody::Many(AcceptedEvents { events: first.into_iter().chain(events).collect() })
        }
    };
    (status, Json(body)).into_response()
}

impl From<Receipt> for AcceptedEvent {
    fn from(receipt: Receipt) -> Self {
        Self {
            event_id: receipt.event_id.to_string(),
            delivery_status: receipt.status.as_str(),
            created_at: receipt.created_at.into(),
        }
    }
}
