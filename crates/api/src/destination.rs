//! Destinations in responses.

use axum::extract::{FromRequestParts, Path};
use http::request::Parts;
use posthaste_domain::{DestinationId, EndpointId};
use posthaste_store::{
    DestinationAudit, DestinationDetail, DestinationStatus, DestinationView, ReceiverActivity,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::event::schema_enum;
use crate::query::excerpt;
use crate::timestamp::Rfc3339;

schema_enum! {
    /// `ok`: events are sent. `failing`: events are sent, but the last attempts failed. `circuit_open`: after repeated
    /// failures a worker holds events back and probes with single requests. `paused`: by an operator, or by the receiver with
    /// `Retry-After`; no event is sent. `disabled`: an endpoint that is disabled; no event is sent.
    DestinationStateSchema as DestinationState { Ok, Failing, CircuitOpen, Paused, Disabled }
}
schema_enum! {
    DestinationActionSchema as DestinationAction { Pause, Resume, Disable, Enable, RotateKey, Delete, Probe }
}
schema_enum! {
    /// `manual`: by a caller or an operator. `gone`: the receiver responded with 410. `failing`: it has been failing for too
    /// long.
    DisableReasonSchema as DisableReason { Manual, Gone, Failing }
}

/// Whether events are sent to a destination, and why not.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = DestinationStatus)]
pub(crate) struct DestinationStatusBody {
    #[schema(example = "17")]
    destination_id: String,
    #[schema(example = "https://receiver.example/hook")]
    url: String,
    #[schema(example = "receiver.example")]
    host: String,
    /// The endpoint whose destination this is; null if events are enqueued to the URL itself.
    #[schema(example = "ep_0000000000000011")]
    endpoint_id: Option<String>,
    /// The application of the endpoint; null if there is none.
    #[schema(example = "app_0000000000000003")]
    app_id: Option<String>,
    #[schema(value_type = DestinationStateSchema)]
    state: &'static str,
    /// Since when and why the endpoint is disabled; null if it is not.
    disabled: Option<DisabledBody>,
    /// When the state began; null for `ok`.
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Rfc3339>,
    /// Why the destination is in this state, in words; null for `ok`.
    #[schema(example = "paused by ops: new disks")]
    reason: Option<String>,
    /// When a worker sends the next probe, if there is an event to send; null if no circuit is open.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_probe_at: Option<Rfc3339>,
    /// When the pause ends; null if the destination is not paused, or until an operator resumes it.
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_until: Option<Rfc3339>,
    /// When the current run of failures began; null while the receiver is healthy.
    #[schema(value_type = Option<String>, format = DateTime)]
    failing_since: Option<Rfc3339>,
}

/// Since when and why an endpoint gets no events.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = DisabledEndpoint)]
pub(crate) struct DisabledBody {
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    #[schema(value_type = DisableReasonSchema)]
    reason: &'static str,
}

/// A destination with the events that wait for it.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = Destination)]
pub(crate) struct DestinationBody {
    #[serde(flatten)]
    status: DestinationStatusBody,
    /// Events that workers are sending now.
    #[schema(example = 0)]
    in_flight: u64,
    /// How many requests may be in flight at once, in all workers together; learned from the receiver's answers. Null if no worker
    /// has sent to it in the last minutes.
    #[schema(example = 20)]
    window: Option<u64>,
    /// The part of the last hundred or two requests of each worker that failed, from 0 to 1; null as for `window`, and without
    /// requests.
    #[schema(example = 0.04, minimum = 0, maximum = 1)]
    failure_ratio: Option<f64>,
    /// The mean duration of the last requests, in milliseconds; null as for `failure_ratio`.
    #[schema(example = 42.5)]
    latency_ms: Option<f64>,
    /// Pending events, counted up to 1,000 in a list and up to 10,000 for one destination.
    #[schema(example = 758)]
    pending_count: u64,
    /// Whether there are more pending events than were counted.
    #[schema(example = false)]
    pending_count_capped: bool,
    /// Age of the oldest pending event that was counted, in whole seconds; null if there is none.
    #[schema(example = 3600)]
    oldest_pending_age_seconds: Option<u64>,
    /// The last failure that was seen, with a short excerpt of the response; null if none is known.
    #[schema(example = "HTTP 503: try later")]
    last_error: Option<String>,
}

/// One destination with the operator actions on it.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationDetail)]
pub(crate) struct DestinationDetailBody {
    #[serde(flatten)]
    destination: DestinationBody,
    /// The latest 100 operator actions, oldest first.
    #[schema(max_items = 100)]
    audit: Vec<DestinationAuditBody>,
}

/// One operator action on a destination.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationAudit)]
pub(crate) struct DestinationAuditBody {
    #[schema(value_type = DestinationActionSchema)]
    action: &'static str,
    /// The name of the operator's API key, or `local` if no keys are configured.
    #[schema(example = "ops")]
    actor: String,
    #[schema(value_type = String, format = DateTime)]
    at: Rfc3339,
    /// The planned end of a pause; null for a pause without end, and for a resume.
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_until: Option<Rfc3339>,
    /// The reason of a pause, as the operator wrote it; null if there was none.
    #[schema(example = "new disks")]
    reason: Option<String>,
}

/// Why a due event is not sent: its destination is paused, or its circuit is open.
#[derive(Serialize, ToSchema)]
#[schema(as = Hold)]
pub(crate) struct HoldBody {
    #[schema(example = "17")]
    destination_id: String,
    /// `disabled`, `paused` or `circuit_open`.
    #[schema(value_type = DestinationStateSchema)]
    state: &'static str,
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Rfc3339>,
    /// When the pause ends; null without a pause, or until an operator resumes the destination.
    #[schema(value_type = Option<String>, format = DateTime)]
    paused_until: Option<Rfc3339>,
    /// When a worker sends the next probe; null if no circuit is open.
    #[schema(value_type = Option<String>, format = DateTime)]
    next_probe_at: Option<Rfc3339>,
    #[schema(example = "the circuit breaker is open after repeated failures")]
    reason: Option<String>,
}

impl HoldBody {
    /// Describes the hold of a destination; `None` if the destination does not hold its events.
    pub(crate) fn of(status: &DestinationStatus) -> Option<Self> {
        status.is_held().then(|| Self {
            destination_id: status.id.to_string(),
            state: status.state().as_str(),
            since: status.since().map(Rfc3339),
            paused_until: status.paused_until().map(Rfc3339),
            next_probe_at: status.next_probe_at().map(Rfc3339),
            reason: status.reason(),
        })
    }
}

impl From<&DestinationStatus> for DestinationStatusBody {
    fn from(status: &DestinationStatus) -> Self {
        Self {
            destination_id: status.id.to_string(),
            url: status.url.to_string(),
            host: status.url.host(),
            endpoint_id: status.app.map(|_| EndpointId(status.id).to_string()),
            app_id: status.app.map(|app| app.to_string()),
            disabled: status
                .disabled
                .map(|disabled| DisabledBody { at: disabled.at.into(), reason: disabled.reason.as_str() }),
            state: status.state().as_str(),
            since: status.since().map(Rfc3339),
            reason: status.reason(),
            next_probe_at: status.next_probe_at().map(Rfc3339),
            paused_until: status.paused_until().map(Rfc3339),
            failing_since: status.failing_since.map(Rfc3339),
        }
    }
}

impl DestinationBody {
    /// Describes a destination, with what workers know of it.
    pub(crate) fn new(view: DestinationView, known: &[ReceiverActivity]) -> Self {
        let known = known.iter().find(|receiver| receiver.destination == view.status.id);
        let failure_ratio = known.and_then(ReceiverActivity::failure_ratio);
        Self {
            status: (&view.status).into(),
            in_flight: view.in_flight,
            window: known.map(|known| known.window),
            failure_ratio,
            latency_ms: known
                .filter(|_| failure_ratio.is_some())
                .map(|known| known.latency.as_secs_f64() * 1e3),
            pending_count: view.pending.count,
            pending_count_capped: view.pending.is_capped,
            oldest_pending_age_seconds: view.pending.oldest_age.map(|age| age.as_secs()),
            last_error: view.last_error,
        }
    }
}

impl DestinationDetailBody {
    pub(crate) fn new(detail: DestinationDetail, known: &[ReceiverActivity]) -> Self {
        Self {
            destination: DestinationBody::new(detail.destination, known),
            audit: detail.audit.into_iter().map(DestinationAuditBody::from).collect(),
        }
    }
}

impl From<DestinationAudit> for DestinationAuditBody {
    fn from(entry: DestinationAudit) -> Self {
        Self {
            action: entry.action.as_str(),
            actor: entry.actor,
            at: entry.at.into(),
            paused_until: entry.until.map(Rfc3339),
            reason: entry.reason,
        }
    }
}

/// Extracts the destination's id from a request's path. A text that cannot be an id is reported as an unknown destination.
pub(crate) struct DestinationIdPath(pub(crate) DestinationId);

impl<S: Send + Sync> FromRequestParts<S> for DestinationIdPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await.map(|Path(text)| text);
        let text = text.unwrap_or_default();
        parse_id(&text).map(Self).ok_or_else(|| ApiError::DestinationNotFound { shown: excerpt(&text) })
    }
}

/// Parses the id of a destination: decimal digits.
pub(crate) fn parse_id(text: &str) -> Option<DestinationId> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).map(DestinationId)
}
