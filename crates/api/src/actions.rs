//! Operator actions on one event: requeue, cancel, discard and replay. The store performs each atomically and records the caller's name.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, Uri};
use posthaste_store::{ActionRequest, EventView};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::access::{Authorized, Operate};
use crate::api::ApiState;
use crate::body::{RequestBody, require_json};
use crate::destination::HoldBody;
use crate::error::ApiError;
use crate::event::EventIdPath;
use crate::idempotency::{self, IdempotencyKey};
use crate::json::{self, Object};
use crate::query::QueryParameters;
use crate::timestamp::Rfc3339;

/// Maximum size of an action's body.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 10;
/// Maximum length of a reason, in characters.
const REASON_CHARS_MAX: usize = 500;

#[derive(Serialize, ToSchema)]
#[schema(as = Requeued)]
pub(crate) struct RequeueResponse {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(value_type = crate::event::DeliveryStatusSchema)]
    delivery_status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
    /// Why the event is not sent although it is due; null if it is sent now.
    held: Option<HoldBody>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Cancelled)]
pub(crate) struct CancelResponse {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(value_type = crate::event::DeliveryStatusSchema)]
    delivery_status: &'static str,
    /// `manual_cancelled`, or `manual_cancelled: ` followed by the reason on one line.
    #[schema(example = "manual_cancelled: wrong customer")]
    last_error: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Discarded)]
pub(crate) struct DiscardResponse {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    event_id: String,
    #[schema(value_type = String, format = DateTime)]
    discarded_at: Rfc3339,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Replayed)]
pub(crate) struct ReplayResponse {
    /// The id of the new event.
    #[schema(example = "order-17-created-r1")]
    event_id: String,
    /// The event whose id the receiver sees as `webhook-id`, as it did before.
    #[schema(example = "order-17-created")]
    replay_of: String,
    #[schema(value_type = crate::event::DeliveryStatusSchema)]
    delivery_status: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
    /// Why the event is not sent although it is due; null if it is sent now.
    held: Option<HoldBody>,
}

/// The body of an action without fields. The type exists to reject unknown ones.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NoFields {}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Cancel)]
pub(crate) struct CancelRequest {
    /// Why the event is cancelled. The audit log keeps the full text. `last_error` gets its first 200 characters, with line
    /// breaks replaced by spaces.
    #[schema(max_length = 500, example = "wrong customer")]
    reason: Option<String>,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Discard)]
pub(crate) struct DiscardRequest {
    /// Why the event is discarded. The audit log keeps it.
    #[schema(max_length = 500, example = "paid by other means")]
    reason: Option<String>,
}

/// Requeue a dead letter
///
/// Makes a failed event pending and due now, and resets its attempt count to 0. Its payload and destination do not change.
/// If its destination is paused or has an open circuit, `held` says so; resuming the destination sends the event now.
/// If a response does not arrive, repeat the request with the same `Idempotency-Key`.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/dlq/{event_id}/requeue", tag = "Dead letters", operation_id = "requeueDeadLetter",
    params(
        ("event_id" = String, Path, description = "The event's id, percent-encoded", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this action: 1 to 255 printable ASCII characters, remembered as long as the event's audit log. Repeating the action on the event with the same key returns the first response", example = "repair-17"),
    ),
    responses(
        (status = 200, description = "The event is pending", body = RequeueResponse),
    ),
)]
pub(crate) async fn requeue(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    EventIdPath(event_id): EventIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<RequeueResponse>, ApiError> {
    let key = IdempotencyKey::parse(&headers, caller.key_name())?;
    let NoFields {} = read_action(&state, &uri, &headers, body).await?;
    let request = action_request(&caller.name, key.as_ref());
    let requeued = state.store.requeue(&event_id, request).await;
    let event = requeued.map_err(|error| idempotency::store_error(error, key))?;
    tracing::info!(%event_id, actor = caller.name, "requeued");
    let held = read_hold(&state, &event).await;
    Ok(Json(RequeueResponse {
        event_id: event.event_id.to_string(),
        delivery_status: event.status.as_str(),
        updated_at: event.updated_at.into(),
        held,
    }))
}

/// Reads why the event is held. The action is done already, so a store that fails now does not fail the request.
async fn read_hold(state: &ApiState, event: &EventView) -> Option<HoldBody> {
    match state.store.destination_status(event.destination_id).await {
        Ok(status) => HoldBody::of(&status),
        Err(error) => {
            tracing::warn!(event_id = %event.event_id, code = error.code(), %error,
                "the response of an action does not say whether the event is held");
            None
        }
    }
}

/// Cancel an event
///
/// A pending event becomes failed and is not sent again. A failed event stays failed, with the new reason. A request that is
/// already in flight may still arrive, but its result is ignored. If a response does not arrive, repeat the request with the same
/// `Idempotency-Key`.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/events/{event_id}/cancel", tag = "Events", operation_id = "cancelEvent",
    params(
        ("event_id" = String, Path, description = "The event's id, percent-encoded", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this action: 1 to 255 printable ASCII characters, remembered as long as the event's audit log. Repeating the action on the event with the same key returns the first response", example = "repair-17"),
    ),
    request_body(content = CancelRequest, description = "Optional"),
    responses(
        (status = 200, description = "The event is failed", body = CancelResponse),
    ),
)]
pub(crate) async fn cancel(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    EventIdPath(event_id): EventIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<CancelResponse>, ApiError> {
    let key = IdempotencyKey::parse(&headers, caller.key_name())?;
    let CancelRequest { reason } = read_action(&state, &uri, &headers, body).await?;
    validate_reason(reason.as_deref().unwrap_or_default())?;
    let request = action_request(&caller.name, key.as_ref());
    let cancelled = state.store.cancel(&event_id, request, reason.as_deref()).await;
    let event = cancelled.map_err(|error| idempotency::store_error(error, key))?;
    tracing::info!(%event_id, actor = caller.name, "cancelled");
    Ok(Json(CancelResponse {
        event_id: event.event_id.to_string(),
        delivery_status: event.status.as_str(),
        last_error: event.last_error,
        updated_at: event.updated_at.into(),
    }))
}

/// Discard a dead letter
///
/// Removes a failed event for good, with its payload and its attempts. The audit log keeps who discarded it, when and why, for
/// as long as delivered events are kept. Until then no other event can have its id.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/dlq/{event_id}/discard", tag = "Dead letters", operation_id = "discardDeadLetter",
    params(
        ("event_id" = String, Path, description = "The event's id, percent-encoded", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this action: 1 to 255 printable ASCII characters, remembered as long as the event's audit log. Repeating the action on the event with the same key returns the first response", example = "repair-17"),
    ),
    request_body(content = DiscardRequest, description = "Optional"),
    responses(
        (status = 200, description = "The event does not exist any more", body = DiscardResponse),
    ),
)]
pub(crate) async fn discard(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    EventIdPath(event_id): EventIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<DiscardResponse>, ApiError> {
    let key = IdempotencyKey::parse(&headers, caller.key_name())?;
    let DiscardRequest { reason } = read_action(&state, &uri, &headers, body).await?;
    validate_reason(reason.as_deref().unwrap_or_default())?;
    let request = action_request(&caller.name, key.as_ref());
    let discarded = state.store.discard(&event_id, request, reason.as_deref()).await;
    let discard = discarded.map_err(|error| idempotency::store_error(error, key))?;
    tracing::info!(%event_id, actor = caller.name, "discarded");
    Ok(Json(DiscardResponse { event_id: event_id.to_string(), discarded_at: discard.at.into() }))
}

/// Replay a delivered event
///
/// Sends a delivered event once more, as a new event with one attempt. The payload and the destination do not change, and neither does
/// `webhook-id`, so a receiver that removes duplicates by it does nothing. To send a failed event, requeue it. If a response does not
/// arrive, repeat the request with the same `Idempotency-Key`.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/events/{event_id}/replay", tag = "Events", operation_id = "replayEvent",
    params(
        ("event_id" = String, Path, description = "The event's id, percent-encoded", example = "order-17-created"),
        ("Idempotency-Key" = Option<String>, Header, description = "Names this action: 1 to 255 printable ASCII characters, remembered as long as the event's audit log. Repeating the action on the event with the same key returns the first response", example = "repair-17"),
    ),
    responses(
        (status = 200, description = "The new event is pending", body = ReplayResponse),
    ),
)]
pub(crate) async fn replay(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    EventIdPath(event_id): EventIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ReplayResponse>, ApiError> {
    let key = IdempotencyKey::parse(&headers, caller.key_name())?;
    let NoFields {} = read_action(&state, &uri, &headers, body).await?;
    let request = action_request(&caller.name, key.as_ref());
    let replayed = state.store.replay(&event_id, request).await;
    let event = replayed.map_err(|error| idempotency::store_error(error, key))?;
    tracing::info!(%event_id, new_event_id = %event.event_id, actor = caller.name, "replayed");
    let held = read_hold(&state, &event).await;
    Ok(Json(ReplayResponse {
        event_id: event.event_id.to_string(),
        replay_of: event.first_event_id().to_string(),
        delivery_status: event.status.as_str(),
        created_at: event.created_at.into(),
        held,
    }))
}

fn action_request<'a>(actor: &'a str, key: Option<&'a IdempotencyKey>) -> ActionRequest<'a> {
    ActionRequest { actor, key: key.map(|key| key.stored.as_str()) }
}

/// Reads the request of an action, which has no query parameters. Its body may be empty: then it is `T::default()`.
pub(crate) async fn read_action<T: Default + DeserializeOwned>(
    state: &ApiState,
    uri: &Uri,
    headers: &HeaderMap,
    body: Body,
) -> Result<T, ApiError> {
    QueryParameters::require_none(uri)?;
    let RequestBody { bytes, _memory } = state.bodies.read(&*state.clock, body, BODY_BYTES_MAX).await?;
    if bytes.trim_ascii().is_empty() {
        return Ok(T::default());
    }
    require_json(headers)?;
    json::parse(&bytes).map(|Object(request)| request)
}

/// Checks that a reason is printable and not too long.
pub(crate) fn validate_reason(reason: &str) -> Result<(), ApiError> {
    let chars = reason.chars().count();
    let control = reason.chars().find(|c| c.is_control() && !c.is_whitespace());
    let message = match control {
        Some(control) => {
            format!("reason must be printable, but contains the character U+{:04X}", u32::from(control))
        }
        None if chars > REASON_CHARS_MAX => {
            format!("reason must have at most {REASON_CHARS_MAX} characters, got {chars}")
        }
        None => return Ok(()),
    };
    Err(ApiError::invalid_at(message, json!({ "field": "reason" })))
}
