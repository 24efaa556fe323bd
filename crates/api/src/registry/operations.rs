//! Routes of background operations: recover and replay what an endpoint failed to get.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use posthaste_domain::{ApplicationRef, EndpointRef, OperationId, Timestamp};
use posthaste_store::{
    Answer, AppScope, ListFrom, ListLimit, ListRequest, NewOperation, Operation, OperationKind, PastRange,
    StoreError,
};

use super::answer::{Post, json_answer};
use super::auth::{AnyCaller, AppCaller, EndpointPath, OperationPath, Read, Resend};
use super::body::{BODY_BYTES_MAX, Incoming, parse};
use super::error::RegistryError;
use super::params::{EndpointPathParams, IdempotencyParams};
use super::query::parse_time;
use super::settings::store_now;
use super::views::{OperationOut, PeriodIn, StartedOperationOut};
use crate::api::ApiState;

/// Send failed messages again
///
/// Starts an operation that sends again the messages of a period that failed at the endpoint. It survives restarts, and sends
/// at a limited rate.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/recover", tag = "Attempts", operation_id = "recoverEndpoint",
    params(EndpointPathParams, IdempotencyParams), request_body = PeriodIn,
    responses((status = 202, description = "The operation is running", body = StartedOperationOut)),
)]
pub(super) async fn recover(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Resend>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    start(&state, &app, OperationKind::Recover, &endpoint, incoming).await
}

/// Send missing messages
///
/// Starts an operation that sends the messages of a period that the endpoint never got and that its event types and channels
/// match now, such as those from before it was created.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/replay-missing", tag = "Attempts", operation_id = "replayMissing",
    params(EndpointPathParams, IdempotencyParams), request_body = PeriodIn,
    responses((status = 202, description = "The operation is running", body = StartedOperationOut)),
)]
pub(super) async fn replay_missing(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Resend>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    start(&state, &app, OperationKind::ReplayMissing, &endpoint, incoming).await
}

async fn start(
    state: &ApiState,
    app: &AppCaller<Resend>,
    kind: OperationKind,
    endpoint: &EndpointRef,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let post = Post::read(state, &app.caller, incoming, BODY_BYTES_MAX).await?;
    let result = async {
        let range = parse_range(&parse::<PeriodIn>(&post.bytes)?, store_now(state).await?)?;
        let rate = state.registry.settings.operation_rate;
        let new = NewOperation { kind, endpoint, range, rate, actor: &app.caller.name };
        let slot = post.slot(state, started_answer);
        let operation = state.store.operations().start(app.scope(), &new, slot.as_ref()).await?;
        tracing::info!(operation = %operation.id, kind = kind.as_str(), %endpoint, actor = app.caller.name, "operation started");
        Ok(started_answer(&operation))
    };
    post.finish(state, result.await).await
}

fn started_answer(operation: &Operation) -> Answer {
    json_answer(StatusCode::ACCEPTED, &StartedOperationOut::from(operation))
}

fn parse_range(period: &PeriodIn, now: Timestamp) -> Result<PastRange, RegistryError> {
    let time = |field: &str, text: &str| {
        let message = format!("{field} must be a time as in 2026-01-31T11:29:00Z");
        parse_time(text).ok_or_else(|| RegistryError::in_body(field, message))
    };
    let since = time("since", &period.since)?;
    let until = period.until.as_deref().map(|text| time("until", text)).transpose()?.unwrap_or(now);
    PastRange::new(now.since(since), now.since(until)).map_err(|error| RegistryError::in_body("since", error))
}

/// Get a background operation
///
/// Shows an operation with its progress.
#[utoipa::path(
    get, path = "/api/v1/background-task/{task_id}", tag = "Attempts", operation_id = "getBackgroundTask",
    params(("task_id" = String, Path, description = "The id of the operation", example = "qtask_0000000000000001")),
    responses((status = 200, description = "The operation", body = OperationOut)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    any: AnyCaller<Read>,
    OperationPath(id): OperationPath,
) -> Result<Json<OperationOut>, RegistryError> {
    let unknown = || RegistryError::from(StoreError::OperationNotFound { operation: id.to_string() });
    let operation = find(&state, id).await?.ok_or_else(unknown)?;
    if any.caller.bound_app().is_some_and(|own| own != operation.app) {
        return Err(unknown());
    }
    let app = ApplicationRef::Id(operation.app);
    let scope = AppScope { org: &any.caller.org, app: &app };
    // The application of another organisation is unknown, and so is the operation.
    match state.store.operations().get(scope, id).await {
        Ok(operation) => Ok(Json((&operation).into())),
        Err(StoreError::ApplicationNotFound { .. }) => Err(unknown()),
        Err(error) => Err(error.into()),
    }
}

/// Finds an operation of any application: the first one from its id on, if it has the id. Lists are in descending order.
async fn find(state: &ApiState, id: OperationId) -> Result<Option<Operation>, RegistryError> {
    let Some(above) = id.0.checked_add(1) else { return Ok(None) };
    let limit = ListLimit::new(1).expect("one is within the limits");
    let request = ListRequest { from: ListFrom::After(OperationId(above)), limit };
    let mut found = state.store.operations().list(None, &request).await?;
    Ok(found.items.pop().filter(|operation| operation.id == id))
}
