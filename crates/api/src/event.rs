//! Events in responses. The store's views contain no payload, so these responses cannot leak one.

use axum::extract::{FromRequestParts, MatchedPath, Path};
use http::request::Parts;
use posthaste_domain::{DeliveryStatus, ErrorClass, EventId, FailureKind};
use posthaste_store::{AttemptView, AuditView, EventView};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::query::excerpt;
use crate::timestamp::Rfc3339;

/// A dead letter.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(crate) struct DeadLetterBody {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(example = "invoice.paid")]
    event_type: String,
    #[schema(example = "pr_17")]
    payment_request_id: Option<String>,
    /// The producer's reference; for an event of an endpoint, the endpoint's id.
    webhook_id: Option<String>,
    session_id: Option<String>,
    /// The name of the API key that stored the event; null if it was stored without a key, such as by SQL.
    #[schema(example = "orders")]
    stored_by: Option<String>,
    /// The delivered event that an operator sent once more with this event; null for any other event.
    #[schema(example = "order-17-created")]
    replay_of: Option<String>,
    #[schema(example = "17")]
    destination_id: String,
    #[schema(example = "https://receiver.example/hook")]
    destination_url: String,
    /// Requests made since the event was enqueued or last requeued.
    #[schema(example = 6)]
    attempts: u32,
    #[schema(example = 6)]
    max_attempts: u32,
    /// The HTTP status or error of the last attempt with a short excerpt of the response, or the reason why the event was
    /// cancelled, abandoned or expired. For a producer without the excerpt, unless `producer_excerpts` is set.
    #[schema(example = "HTTP 503: try later")]
    last_error: Option<String>,
    /// Why the event is dead-lettered; null if it is not.
    #[schema(value_type = Option<FailureKindSchema>)]
    failure_kind: Option<&'static str>,
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000000Z")]
    updated_at: Rfc3339,
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T11:29:00.000000Z")]
    created_at: Rfc3339,
}

/// An event of any state: the fields of a dead letter, and its delivery status.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventBody {
    #[serde(flatten)]
    dead_letter: DeadLetterBody,
    #[schema(value_type = DeliveryStatusSchema)]
    delivery_status: &'static str,
    /// Null once the event is delivered or failed.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Rfc3339>,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_attempted_at: Option<Rfc3339>,
    #[schema(value_type = Option<String>, format = DateTime)]
    delivered_at: Option<Rfc3339>,
}

/// One event with an explanation of its state, its attempts, and the operator actions on it.
#[derive(Serialize, ToSchema)]
#[schema(as = EventDetail)]
pub(crate) struct EventDetailBody {
    #[serde(flatten)]
    pub(crate) event: EventBody,
    /// Why the event is in its state and what happens next, as a sentence for people.
    #[schema(example = "Retry 1 of 5 is due at 2026-01-31T12:01:00.000000Z, after HTTP 503: try later.")]
    pub(crate) explanation: String,
    /// The latest 100 attempts, oldest first. Attempt numbers restart at 1 after a requeue.
    #[schema(max_items = 100)]
    pub(crate) history: Vec<AttemptBody>,
    /// The latest 100 operator actions, oldest first. Omitted for a producer, who may not see operators.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100, nullable = false)]
    pub(crate) audit: Option<Vec<AuditEntryBody>>,
}

/// One HTTP request to the receiver, with its result.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptBody {
    #[schema(example = 1)]
    attempt: u32,
    #[schema(value_type = String, format = DateTime)]
    started_at: Rfc3339,
    #[schema(example = 128)]
    duration_ms: u64,
    /// Null if no response arrived.
    #[schema(example = 503)]
    http_status: Option<u16>,
    /// Why no response arrived: `timeout`, `dns`, `connect`, `tls`, …; null if one did.
    error_class: Option<&'static str>,
    /// The beginning of the response or of the error, made printable. Omitted for a producer, unless `producer_excerpts` is
    /// set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "try later", nullable = false)]
    excerpt: Option<String>,
    #[schema(example = "web-1-00c0ffee00c0ffee")]
    worker_id: String,
    /// False if the result arrived after the worker had lost the event: it was cancelled, it had expired, or another worker had
    /// taken it over. Such a result changed nothing, and `attempts` does not count it.
    #[schema(example = true)]
    applied: bool,
}

/// One operator action on an event.
#[derive(Serialize, ToSchema)]
#[schema(as = Audit)]
pub(crate) struct AuditEntryBody {
    #[schema(value_type = ManualActionSchema)]
    action: &'static str,
    /// The name of the operator's API key, or `local` if no keys are configured.
    #[schema(example = "ops")]
    actor: String,
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    /// The reason for a cancel, as the operator wrote it; null if there was none, and for a requeue.
    #[schema(example = "wrong customer")]
    reason: Option<String>,
}

/// Declares the OpenAPI schema of an enum of the domain or the store.
macro_rules! schema_enum {
    ($(#[$doc:meta])* $name:ident as $shown:ident { $($variant:ident),+ }) => {
        $(#[$doc])*
        #[derive(ToSchema)]
        #[schema(as = $shown, rename_all = "snake_case")]
        #[expect(dead_code, reason = "only its schema is used; responses contain the domain's names")]
        pub(crate) enum $name { $($variant),+ }
    };
}
pub(crate) use schema_enum;

schema_enum! {
    /// A `failed` event is in the dead-letter queue. An event between retries is `pending`.
    DeliveryStatusSchema as DeliveryStatus { Pending, Delivered, Failed }
}
schema_enum! {
    /// `exhausted`: all attempts failed. `cancelled`: by an operator. `abandoned`: several workers in a row crashed or lost
    /// their lease while sending it. `gone`: the receiver responded with 410. `expired`: it had not been delivered within
    /// `expire_after_seconds` of its enqueue or last requeue.
    FailureKindSchema as FailureKind { Exhausted, Cancelled, Abandoned, Gone, Expired }
}
schema_enum! {
    /// `resend`: through `/api/v1`. `replay`: a delivered event was sent once more. `view_content`: an operator looked at the payload.
    ManualActionSchema as ManualAction { Requeue, Cancel, Discard, Resend, Replay, ViewContent }
}

impl From<&EventView> for DeadLetterBody {
    fn from(event: &EventView) -> Self {
        Self {
            event_id: event.event_id.to_string(),
            event_type: event.event_type.clone(),
            payment_request_id: event.payment_request_id.clone(),
            webhook_id: event.webhook_id.clone(),
            session_id: event.session_id.clone(),
            stored_by: event.stored_by.clone(),
            replay_of: event.replay_of.as_ref().map(ToString::to_string),
            destination_id: event.destination_id.to_string(),
            destination_url: event.destination_url.to_string(),
            attempts: event.attempts,
            max_attempts: event.max_attempts,
            last_error: event.last_error.clone(),
            failure_kind: event.failure_kind.map(FailureKind::as_str),
            updated_at: event.updated_at.into(),
            created_at: event.created_at.into(),
        }
    }
}

impl From<&EventView> for EventBody {
    fn from(event: &EventView) -> Self {
        Self {
            dead_letter: event.into(),
            delivery_status: DeliveryStatus::as_str(event.status),
            next_attempt_at: event.next_attempt_at.map(Rfc3339),
            last_attempted_at: event.last_attempted_at.map(Rfc3339),
            delivered_at: event.delivered_at.map(Rfc3339),
        }
    }
}

impl AttemptBody {
    pub(crate) fn new(attempt: &AttemptView, with_excerpt: bool) -> Self {
        Self {
            attempt: attempt.attempt,
            started_at: attempt.started_at.into(),
            duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
            http_status: attempt.http_status,
            error_class: attempt.error_class.map(ErrorClass::as_str),
            excerpt: with_excerpt.then(|| attempt.excerpt.to_string()),
            worker_id: attempt.worker.to_string(),
            applied: attempt.applied,
        }
    }
}

impl From<AuditView> for AuditEntryBody {
    fn from(audit: AuditView) -> Self {
        Self { action: audit.action.as_str(), actor: audit.actor, at: audit.at.into(), reason: audit.reason }
    }
}

/// Extracts the event id from a request's path. A text that cannot be an id is reported as an unknown event.
pub(crate) struct EventIdPath(pub(crate) EventId);

impl<S: Send + Sync> FromRequestParts<S> for EventIdPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let not_found = |text: &str| ApiError::EventNotFound { shown: excerpt(text) };
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|_| not_found(undecoded_id(parts)))?;
        EventId::new(text.as_str()).map(Self).map_err(|_| not_found(&text))
    }
}

/// Returns the id as it is in the path, for an id that cannot be percent-decoded to UTF-8.
fn undecoded_id(parts: &Parts) -> &str {
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let position = route.split('/').position(|segment| segment == "{event_id}");
    position.and_then(|position| parts.uri.path().split('/').nth(position)).unwrap_or_default()
}
