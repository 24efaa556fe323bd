//! What operators do to one event. The store does it in one step, with the caller's name for the audit.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use bytes::Bytes;
use http::{HeaderMap, Uri};
use serde::Serialize;
use serde_json::json;
use utoipa::ToSchema;

use crate::access::{Allowed, Operating};
use crate::api::Service;
use crate::body::{Arrived, must_be_json};
use crate::error::ApiError;
use crate::event::NamedEvent;
use crate::moment::Moment;
use crate::object;
use crate::query::Parameters;

/// Largest body of an action.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 10;
/// Longest reason, in characters.
const REASON_CHARS_MAX: usize = 500;

#[derive(Serialize, ToSchema)]
#[schema(as = Requeued)]
pub(crate) struct RequeuedBody {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(value_type = crate::event::DeliveryStatusWord)]
    delivery_status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Moment,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Cancelled)]
pub(crate) struct CancelledBody {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(value_type = crate::event::DeliveryStatusWord)]
    delivery_status: &'static str,
    /// `manual_cancelled`, or `manual_cancelled: ` and the reason on one line.
    #[schema(example = "manual_cancelled: wrong customer")]
    last_error: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Moment,
}

#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Cancel)]
#[expect(dead_code, reason = "the schema of what is read below")]
pub(crate) struct CancelRequest {
    /// Why. The audit keeps it as it is written; in `last_error`, line breaks become spaces and the first 200 characters
    /// are kept.
    #[schema(max_length = 500, example = "wrong customer")]
    reason: Option<String>,
}

/// Requeue a dead letter
///
/// A failed event becomes pending and due now, with a fresh count of attempts. Its payload and destination stay as they are.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/dlq/{event_id}/requeue", tag = "Dead letters", operation_id = "requeueDeadLetter",
    params(("event_id" = String, Path, description = "The event's id, percent-encoded", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")),
    responses(
        (status = 200, description = "It is pending", body = RequeuedBody),
    ),
)]
pub(crate) async fn requeue(
    State(service): State<Arc<Service>>,
    caller: Allowed<Operating>,
    NamedEvent(event_id): NamedEvent,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<RequeuedBody>, ApiError> {
    Parameters::of(&uri, &[])?;
    let Arrived { body, .. } = service.bodies.read(&*service.clock, body, BODY_BYTES_MAX).await?;
    said(&headers, &body, &[])?;
    let event = service.store.requeue(&event_id, &caller.name).await?;
    tracing::info!(%event_id, actor = caller.name, "requeued");
    Ok(Json(RequeuedBody {
        event_id: event.event_id.to_string(),
        delivery_status: event.status.as_str(),
        updated_at: event.updated_at.into(),
    }))
}

/// Cancel an event
///
/// A pending event is sent no more and becomes failed; a failed one stays so, with the new reason. An attempt that is on its
/// way is not called back, but its result no longer counts.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/events/{event_id}/cancel", tag = "Events", operation_id = "cancelEvent",
    params(("event_id" = String, Path, description = "The event's id, percent-encoded", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")),
    request_body(content = CancelRequest, description = "May be left out"),
    responses(
        (status = 200, description = "It is failed", body = CancelledBody),
    ),
)]
pub(crate) async fn cancel(
    State(service): State<Arc<Service>>,
    caller: Allowed<Operating>,
    NamedEvent(event_id): NamedEvent,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CancelledBody>, ApiError> {
    Parameters::of(&uri, &[])?;
    let Arrived { body, .. } = service.bodies.read(&*service.clock, body, BODY_BYTES_MAX).await?;
    let reason = said(&headers, &body, &["reason"])?.map(checked).transpose()?;
    let event = service.store.cancel(&event_id, &caller.name, reason.as_deref()).await?;
    tracing::info!(%event_id, actor = caller.name, "cancelled");
    Ok(Json(CancelledBody {
        event_id: event.event_id.to_string(),
        delivery_status: event.status.as_str(),
        last_error: event.last_error,
        updated_at: event.updated_at.into(),
    }))
}

/// The body may be left out.
fn said(
    headers: &HeaderMap,
    body: &Bytes,
    known: &'static [&'static str],
) -> Result<Option<String>, ApiError> {
    if body.trim_ascii().is_empty() {
        return Ok(None);
    }
    must_be_json(headers)?;
    object::optional_text(body, known)
}

fn checked(reason: String) -> Result<String, ApiError> {
    let chars = reason.chars().count();
    let control = reason.chars().find(|c| c.is_control() && !c.is_whitespace());
    let message = match control {
        Some(control) => {
            format!("reason must be printable, and has the character U+{:04X}", u32::from(control))
        }
        None if chars > REASON_CHARS_MAX => {
            format!("reason must have at most {REASON_CHARS_MAX} characters; got {chars}")
        }
        None => return Ok(reason),
    };
    Err(ApiError::invalid_at(message, json!({ "field": "reason" })))
}
