//! Events as operators and producers read them. A store's view has no payload, and so neither has this.

use axum::extract::{FromRequestParts, MatchedPath, Path};
use http::request::Parts;
use posthaste_domain::{DeliveryStatus, ErrorClass, EventId, FailureKind};
use posthaste_store::{AttemptView, AuditView, EventView};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::moment::Moment;

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
    webhook_id: Option<String>,
    session_id: Option<String>,
    #[schema(example = "https://receiver.example/hook")]
    destination_url: String,
    /// Requests made since the event was enqueued or last requeued.
    #[schema(example = 6)]
    attempts: u32,
    #[schema(example = 6)]
    max_attempts: u32,
    /// The status or error of the last attempt with a short excerpt, or why it was ended.
    #[schema(example = "HTTP 503: try later")]
    last_error: Option<String>,
    /// Why it is dead-lettered; null for an event that is not.
    #[schema(value_type = Option<FailureKindWord>)]
    failure_kind: Option<&'static str>,
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000000Z")]
    updated_at: Moment,
    #[schema(value_type = String, format = DateTime, example = "2026-01-31T11:29:00.000000Z")]
    created_at: Moment,
}

/// An event of any state: what a dead letter has, and where it stands.
#[derive(Serialize, ToSchema)]
#[schema(as = Event)]
pub(crate) struct EventBody {
    #[serde(flatten)]
    letter: DeadLetterBody,
    #[schema(value_type = DeliveryStatusWord)]
    delivery_status: &'static str,
    /// Null once the event is delivered or failed.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt_at: Option<Moment>,
    #[schema(value_type = Option<String>, format = DateTime)]
    last_attempted_at: Option<Moment>,
    #[schema(value_type = Option<String>, format = DateTime)]
    delivered_at: Option<Moment>,
}

/// One event with why it is where it is, its attempts, and what operators did to it.
#[derive(Serialize, ToSchema)]
#[schema(as = EventDetail)]
pub(crate) struct EventDetailBody {
    #[serde(flatten)]
    pub(crate) event: EventBody,
    /// In words: why it is where it is, and what happens next.
    #[schema(example = "Retry 1 of 5 is due at 2026-01-31T12:01:00.000000Z, after HTTP 503: try later.")]
    pub(crate) explanation: String,
    /// The latest 100, oldest first. Numbers start again after a requeue.
    #[schema(max_items = 100)]
    pub(crate) history: Vec<AttemptBody>,
    /// The latest 100, oldest first. Left out for a producer, who is not told who operates.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(max_items = 100, nullable = false)]
    pub(crate) audit: Option<Vec<AuditBody>>,
}

/// One request that was made, and what came of it.
#[derive(Serialize, ToSchema)]
#[schema(as = Attempt)]
pub(crate) struct AttemptBody {
    #[schema(example = 1)]
    attempt: u32,
    #[schema(value_type = String, format = DateTime)]
    started_at: Moment,
    #[schema(example = 128)]
    duration_ms: u64,
    /// Null when no response came.
    #[schema(example = 503)]
    http_status: Option<u16>,
    /// Why no response came: `timeout`, `dns`, `connect`, `tls`, …; null when one did.
    error_class: Option<&'static str>,
    /// The beginning of the response or of the error, made printable.
    #[schema(example = "try later")]
    excerpt: String,
    #[schema(example = "web-1-00c0ffee00c0ffee")]
    worker_id: String,
}

/// What an operator did.
#[derive(Serialize, ToSchema)]
#[schema(as = Audit)]
pub(crate) struct AuditBody {
    #[schema(value_type = ManualActionWord)]
    action: &'static str,
    /// The name of the API key, or `local` where there are no keys.
    #[schema(example = "ops")]
    actor: String,
    #[schema(value_type = String, format = DateTime)]
    at: Moment,
    /// Why it was cancelled, as the operator wrote it; null where they gave no reason, and for a requeue.
    #[schema(example = "wrong customer")]
    reason: Option<String>,
}

/// The words of a domain's enumeration, for the document.
macro_rules! words_of {
    ($(#[$doc:meta])* $name:ident as $shown:ident { $($variant:ident),+ }) => {
        $(#[$doc])*
        #[derive(ToSchema)]
        #[schema(as = $shown, rename_all = "snake_case")]
        #[expect(dead_code, reason = "a schema of the words that the domain writes")]
        pub(crate) enum $name { $($variant),+ }
    };
}

words_of! {
    /// `failed` is the dead-letter queue; an event that is being retried is `pending`.
    DeliveryStatusWord as DeliveryStatus { Pending, Delivered, Failed }
}
words_of! {
    /// `exhausted`: every attempt was made. `cancelled`: by an operator. `abandoned`: its workers went down with it, again
    /// and again. `gone`: the receiver answered 410.
    FailureKindWord as FailureKind { Exhausted, Cancelled, Abandoned, Gone }
}
words_of! {
    ManualActionWord as ManualAction { Requeue, Cancel }
}

impl From<&EventView> for DeadLetterBody {
    fn from(event: &EventView) -> Self {
        Self {
            event_id: event.event_id.to_string(),
            event_type: event.event_type.clone(),
            payment_request_id: event.payment_request_id.clone(),
            webhook_id: event.webhook_id.clone(),
            session_id: event.session_id.clone(),
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
            letter: event.into(),
            delivery_status: DeliveryStatus::as_str(event.status),
            next_attempt_at: event.next_attempt_at.map(Moment),
            last_attempted_at: event.last_attempted_at.map(Moment),
            delivered_at: event.delivered_at.map(Moment),
        }
    }
}

impl From<AttemptView> for AttemptBody {
    fn from(attempt: AttemptView) -> Self {
        Self {
            attempt: attempt.attempt,
            started_at: attempt.started_at.into(),
            duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
            http_status: attempt.http_status,
            error_class: attempt.error_class.map(ErrorClass::as_str),
            excerpt: attempt.excerpt.to_string(),
            worker_id: attempt.worker.to_string(),
        }
    }
}

impl From<AuditView> for AuditBody {
    fn from(audit: AuditView) -> Self {
        Self { action: audit.action.as_str(), actor: audit.actor, at: audit.at.into(), reason: audit.reason }
    }
}

/// The event that a path names. What cannot be an id is not the id of any event.
pub(crate) struct NamedEvent(pub(crate) EventId);

impl<S: Send + Sync> FromRequestParts<S> for NamedEvent {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let unknown = |text: &str| ApiError::NoSuchEvent { shown: text.chars().take(64).collect() };
        let Path(text) =
            Path::<String>::from_request_parts(parts, state).await.map_err(|_| unknown(as_written(parts)))?;
        EventId::new(text.as_str()).map(Self).map_err(|_| unknown(&text))
    }
}

/// The id of the path before it is decoded, because that it cannot be.
fn as_written(parts: &Parts) -> &str {
    let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
    let place = route.split('/').position(|segment| segment == "{event_id}");
    place.and_then(|place| parts.uri.path().split('/').nth(place)).unwrap_or_default()
}
