//! Routes of endpoints.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use posthaste_domain::{DestinationUrl, EndpointId};
use posthaste_store::{Answer, Endpoint};

use super::answer::{Post, json_answer, respond};
use super::auth::{AppCaller, EndpointPath, Manage, Read};
use super::body::{BODY_BYTES_MAX, Incoming, parse};
use super::error::RegistryError;
use super::list::{self, ListOf, PageParams, parse_list_request};
use super::params::{AppPathParams, EndpointPathParams, IdempotencyParams, PeriodParams};
use super::query::Params;
use super::secrets::new_secrets;
use super::views::{EndpointIn, EndpointOut, EndpointPatch, EndpointStatsOut};
use crate::api::ApiState;

/// List endpoints
///
/// Lists the endpoints of an application, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint", tag = "Endpoints", operation_id = "listEndpoints",
    params(AppPathParams, PageParams),
    responses((status = 200, description = "A page of endpoints", body = ListOf<EndpointOut>)),
)]
pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Read>,
    params: Params,
) -> Result<Response, RegistryError> {
    let request = parse_list_request(&params, EndpointId::parse)?;
    let endpoints = state.store.endpoints().list(app.scope(), &request).await?;
    Ok(list::respond(endpoints, |endpoint| endpoint.id.to_string(), |endpoint| EndpointOut::from(&endpoint)))
}

/// Create an endpoint
///
/// Creates an endpoint, which gets the messages that are published from now on and match its event types and channels.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint", tag = "Endpoints", operation_id = "createEndpoint",
    params(AppPathParams, IdempotencyParams), request_body = EndpointIn,
    responses((status = 201, description = "The endpoint was created", body = EndpointOut)),
)]
pub(super) async fn create(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Manage>,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let post = Post::read(&state, &app.caller, incoming, BODY_BYTES_MAX).await?;
    let result = async {
        let body = parse::<EndpointIn>(&post.bytes)?;
        let secrets = new_secrets(&state, &body)?;
        let new = body.accept()?;
        check_url(&state, &new.url)?;
        let slot = post.slot(&state, created_answer);
        Ok(created_answer(&state.store.endpoints().create(app.scope(), &new, &secrets, slot.as_ref()).await?))
    };
    post.finish(&state, result.await).await
}

fn created_answer(endpoint: &Endpoint) -> Answer {
    json_answer(StatusCode::CREATED, &EndpointOut::from(endpoint))
}

/// Refuses a URL to which every request would be refused.
fn check_url(state: &ApiState, url: &DestinationUrl) -> Result<(), RegistryError> {
    state.destination_check.check(url).map_err(|reason| RegistryError::in_body("url", reason))
}

/// Get an endpoint
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "Endpoints", operation_id = "getEndpoint",
    params(EndpointPathParams),
    responses((status = 200, description = "The endpoint", body = EndpointOut)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Read>,
    EndpointPath(endpoint): EndpointPath,
) -> Result<Json<EndpointOut>, RegistryError> {
    Ok(Json((&state.store.endpoints().get(app.scope(), &endpoint).await?).into()))
}

/// Replace an endpoint
///
/// Replaces every field of an endpoint, but neither its secret nor its headers. Creates it if no endpoint has the uid of the
/// path.
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "Endpoints", operation_id = "putEndpoint",
    params(EndpointPathParams), request_body = EndpointIn,
    responses(
        (status = 200, description = "The endpoint was replaced", body = EndpointOut),
        (status = 201, description = "The endpoint was created", body = EndpointOut),
    ),
)]
pub(super) async fn put(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Manage>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let read = incoming.read(&state, BODY_BYTES_MAX).await?;
    let body = parse::<EndpointIn>(&read.bytes)?;
    let secrets = new_secrets(&state, &body)?;
    let new = body.accept()?;
    check_url(&state, &new.url)?;
    let endpoints = state.store.endpoints();
    let put = endpoints.put(app.scope(), &endpoint, &new, &secrets, &app.caller.name).await?;
    let status = if put.is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(respond(json_answer(status, &EndpointOut::from(&put.value))))
}

/// Change an endpoint
///
/// Changes the fields that the body has. A new URL also applies to pending messages. Disabling holds them back.
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "Endpoints", operation_id = "patchEndpoint",
    params(EndpointPathParams), request_body = EndpointPatch,
    responses((status = 200, description = "The endpoint was changed", body = EndpointOut)),
)]
pub(super) async fn patch(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Manage>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<Json<EndpointOut>, RegistryError> {
    let body = incoming.read(&state, BODY_BYTES_MAX).await?;
    let change = parse::<EndpointPatch>(&body.bytes)?.accept()?;
    if let Some(url) = &change.url {
        check_url(&state, url)?;
    }
    let endpoints = state.store.endpoints();
    Ok(Json((&endpoints.update(app.scope(), &endpoint, &change, &app.caller.name).await?).into()))
}

/// Delete an endpoint
///
/// Deletes an endpoint and cancels its pending messages. Its uid is free.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}", tag = "Endpoints", operation_id = "deleteEndpoint",
    params(EndpointPathParams),
    responses((status = 204, description = "The endpoint was deleted")),
)]
pub(super) async fn delete(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Manage>,
    EndpointPath(endpoint): EndpointPath,
) -> Result<StatusCode, RegistryError> {
    state.store.endpoints().delete(app.scope(), &endpoint, &app.caller.name).await?;
    tracing::info!(app = %app.app, %endpoint, actor = app.caller.name, "endpoint deleted");
    Ok(StatusCode::NO_CONTENT)
}

/// Count the messages of an endpoint
///
/// Counts by state the messages of an endpoint that were published within a period.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/stats", tag = "Endpoints", operation_id = "getEndpointStats",
    params(EndpointPathParams, PeriodParams),
    responses((status = 200, description = "The counts", body = EndpointStatsOut)),
)]
pub(super) async fn stats(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Read>,
    EndpointPath(endpoint): EndpointPath,
    params: Params,
) -> Result<Json<EndpointStatsOut>, RegistryError> {
    let (since, until) = (params.time("since")?, params.time("until")?);
    Ok(Json(state.store.endpoints().stats(app.scope(), &endpoint, since, until).await?.into()))
}
