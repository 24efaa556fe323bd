//! Events in: one, or many at once, all or none.

mod parse;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use http::{HeaderMap, StatusCode, Uri};
use posthaste_domain::{InvalidEvent, NewEvent, NewEventSpec, TraceParent};
use posthaste_store::{EnqueueRequest, Enqueued, Idempotency, Receipt, StoreError};
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use utoipa::ToSchema;

use crate::access::{Allowed, Enqueuing};
use crate::api::{Intake, Service};
use crate::body::{self, Arrived};
use crate::error::ApiError;
use crate::moment::Moment;
use crate::query::Parameters;

use parse::EventsRequest;
use parse::Offered;

/// Largest body, unless one payload may be larger: many events share it.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;
/// Room for everything of an event that is not its payload.
const AROUND_PAYLOAD_BYTES: usize = 64 << 10;
/// Longest idempotency key.
const KEY_LEN_MAX: usize = 255;

/// An event that was taken in.
#[derive(Serialize, ToSchema)]
#[schema(as = Accepted)]
pub(crate) struct AcceptedBody {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(value_type = crate::event::DeliveryStatusWord)]
    delivery_status: &'static str,
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T11:29:00.000000Z")]
    created_at: Moment,
}

/// Events that were taken in, in the order of the request.
#[derive(Serialize, ToSchema)]
#[schema(as = AcceptedMany)]
pub(crate) struct AcceptedManyBody {
    events: Vec<AcceptedBody>,
}

/// The answer has the shape of the request.
#[derive(Serialize, ToSchema)]
#[serde(untagged)]
#[schema(as = AcceptedOneOrMany)]
pub(crate) enum AcceptedAny {
    One(AcceptedBody),
    Many(AcceptedManyBody),
}

/// Enqueue events
///
/// One event, or an array of up to 1,000, of which all are stored or none. They are durable when the answer comes.
/// The payload is any JSON value, and its bytes are delivered exactly as they came: number forms, order of keys and white
/// space. Repeat a request whose answer did not arrive under the same `Idempotency-Key`. A `traceparent` header is
/// passed on with every delivery.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/events", tag = "Events", operation_id = "enqueueEvents",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "1 to 255 printable ASCII characters, remembered for a day unless configured otherwise. The same key and body again bring the first answer", example = "order-17-created"),
        ("traceparent" = Option<String>, Header, description = "W3C trace context of the request", example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
    ),
    request_body(content = EventsRequest, examples(
        ("one" = (summary = "One event", value = json!({
            "destination_url": "https://receiver.example/hook", "event_type": "invoice.paid",
            "payload": {"invoice": "in_17", "amount": 12.50}, "payment_request_id": "pr_17"
        }))),
        ("many" = (summary = "Several, all or none", value = json!([
            {"destination_url": "https://receiver.example/hook", "event_type": "invoice.paid", "payload": {"invoice": "in_17"}},
            {"destination_url": "https://other.example/hook", "event_type": "invoice.paid", "payload": {"invoice": "in_17"},
             "event_id": "in_17-to-other", "max_attempts": 3}
        ]))),
    )),
    responses(
        (status = 200, description = "A replay: the first answer to this key and body", body = AcceptedAny),
        (status = 202, description = "Stored, and due now", body = AcceptedAny),
    ),
)]
pub(crate) async fn enqueue(
    State(service): State<Arc<Service>>,
    caller: Allowed<Enqueuing>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    Parameters::of(&uri, &[])?;
    let key = idempotency_key(&headers)?;
    body::must_be_json(&headers)?;
    let intake = service.intake;
    let bytes_max = BODY_BYTES_MAX.max(intake.payload_bytes_max.saturating_add(AROUND_PAYLOAD_BYTES));
    let Arrived { body, _place } = service.bodies.read(&*service.clock, body, bytes_max).await?;
    let offered = parse::parse(&body)?;
    let many = matches!(offered, Offered::Many(_));
    let request = EnqueueRequest {
        events: accept(offered, traceparent(&headers).as_deref(), intake)?,
        idempotency: key.map(|key| idempotency(&caller.name, key, &body, intake)),
    };
    let named = request.events.iter().map(|event| event.event_id().cloned()).collect::<Vec<_>>();
    match service.enqueuer.enqueue(request).await {
        Ok(enqueued) => Ok(answer(enqueued, many)),
        Err(StoreError::IdempotencyConflict { .. }) => {
            // Told of the key as it was sent: the store's carries the caller's name.
            let key = key.unwrap_or_default().to_owned();
            Err(StoreError::IdempotencyConflict { key }.into())
        }
        Err(StoreError::EventIdTaken { event_id }) => {
            let index = named.iter().rposition(|name| name.as_ref() == Some(&event_id)).filter(|_| many);
            Err(ApiError::EventIdTaken { event_id, index })
        }
        Err(error) => Err(error.into()),
    }
}

/// Judges every event; the first that is refused refuses them all.
fn accept(offered: Offered, traceparent: Option<&str>, intake: Intake) -> Result<Vec<NewEvent>, ApiError> {
    let one = |spec: NewEventSpec, index: Option<usize>| {
        let spec = NewEventSpec { traceparent: traceparent.map(str::to_owned), ..spec };
        NewEvent::accept(spec, intake.payload_bytes_max, intake.max_attempts)
            .map_err(|error| refused(&error, index))
    };
    match offered {
        Offered::One(spec) => Ok(vec![one(*spec, None)?]),
        Offered::Many(specs) => {
            specs.into_iter().enumerate().map(|(index, spec)| one(spec, Some(index))).collect()
        }
    }
}

fn refused(error: &InvalidEvent, index: Option<usize>) -> ApiError {
    let field = match error {
        InvalidEvent::Destination(_) => "destination_url",
        InvalidEvent::Id(_) => "event_id",
        InvalidEvent::Label { field, .. } => field,
        InvalidEvent::PayloadTooLarge { .. } => "payload",
        InvalidEvent::MaxAttempts(_) => "max_attempts",
    };
    let message = index.map_or_else(|| error.to_string(), |index| format!("event {index}: {error}"));
    let details: Value =
        index.map_or_else(|| json!({ "field": field }), |index| json!({ "index": index, "field": field }));
    match error {
        InvalidEvent::PayloadTooLarge { .. } => ApiError::TooLarge { message, details: Some(details) },
        _ => ApiError::invalid_at(message, details),
    }
}

fn idempotency_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut sent = headers.get_all("idempotency-key").iter();
    let key = match (sent.next(), sent.next()) {
        (None, _) => return Ok(None),
        // A header may hold tabs besides, and nobody sees them.
        (Some(value), None) => value.to_str().ok().filter(|key| !key.contains('\t')),
        (Some(_), Some(_)) => None,
    };
    key.filter(|key| (1..=KEY_LEN_MAX).contains(&key.len())).map(Some).ok_or_else(|| {
        let message =
            format!("Idempotency-Key must be sent once, with 1 to {KEY_LEN_MAX} printable ASCII characters");
        ApiError::invalid_at(message, json!({ "header": "idempotency-key" }))
    })
}

/// Every caller has keys of its own: two producers that count their requests must not meet.
fn idempotency(caller: &str, key: &str, body: &Bytes, intake: Intake) -> Idempotency {
    Idempotency {
        key: format!("{caller}:{key}"),
        fingerprint: Sha256::digest(body).into(),
        keep: intake.idempotency_keep,
    }
}

/// The W3C header, where it is one: by its own rules, what is not is passed over, and so are two.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let mut sent = headers.get_all("traceparent").iter();
    let (Some(value), None) = (sent.next(), sent.next()) else { return None };
    TraceParent::parse(value.to_str().ok()?).map(|parent| parent.to_string())
}

fn answer(enqueued: Enqueued, many: bool) -> Response {
    let status = if enqueued.replayed { StatusCode::OK } else { StatusCode::ACCEPTED };
    let mut events = enqueued.receipts.into_iter().map(AcceptedBody::from);
    let body = match (many, events.next()) {
        (false, Some(event)) => AcceptedAny::One(event),
        (_, first) => {
            AcceptedAny::Many(AcceptedManyBody { events: first.into_iter().chain(events).collect() })
        }
    };
    (status, Json(body)).into_response()
}

impl From<Receipt> for AcceptedBody {
    fn from(receipt: Receipt) -> Self {
        Self {
            event_id: receipt.event_id.to_string(),
            delivery_status: receipt.status.as_str(),
            created_at: receipt.created_at.into(),
        }
    }
}
