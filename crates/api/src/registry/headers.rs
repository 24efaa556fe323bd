//! Routes of the custom headers of endpoints. Values that may be credentials are not shown.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::StatusCode;
use posthaste_domain::seal::SealedValue;
use posthaste_domain::{CustomHeaders, DestinationId, InvalidHeaders};
use posthaste_store::StoreError;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::auth::{AppCaller, EndpointPath, Manage, Read};
use super::body::{BODY_BYTES_MAX, Incoming, parse};
use super::error::RegistryError;
use super::params::EndpointPathParams;
use super::settings::RegistryState;
use crate::api::ApiState;

/// How often a change is tried again after another change came first.
const TRIES_MAX: usize = 5;

/// The custom headers of an endpoint.
#[derive(Serialize, ToSchema)]
#[schema(as = EndpointHeaders)]
pub(super) struct HeadersOut {
    #[schema(example = json!({"X-Region": "eu"}))]
    headers: BTreeMap<String, String>,
    /// The names of headers whose values may be credentials and are not shown.
    #[schema(example = json!(["Authorization"]))]
    sensitive: Vec<String>,
}

/// Headers that replace those of an endpoint.
#[derive(Deserialize, ToSchema)]
#[schema(as = EndpointHeadersIn)]
pub(super) struct HeadersIn {
    #[schema(example = json!({"X-Region": "eu"}))]
    headers: BTreeMap<String, String>,
}

/// Headers to add, replace and remove.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
#[schema(as = EndpointHeadersPatch)]
pub(super) struct HeadersPatch {
    /// Headers to add or replace. Null removes a header.
    #[schema(example = json!({"X-Region": "eu"}))]
    headers: BTreeMap<String, Option<String>>,
    /// The names of headers to remove.
    delete_headers: Option<Vec<String>>,
}

/// Get the headers of an endpoint
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", tag = "Endpoints", operation_id = "getEndpointHeaders",
    params(EndpointPathParams),
    responses((status = 200, description = "The headers", body = HeadersOut)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Read>,
    EndpointPath(endpoint): EndpointPath,
) -> Result<Json<HeadersOut>, RegistryError> {
    let endpoint = state.store.endpoints().get(app.scope(), &endpoint).await?;
    let stored = state.store.endpoints().headers(endpoint.destination()).await?;
    let headers = state.registry.open_headers(stored.as_ref())?;
    let (sensitive, shown): (Vec<_>, Vec<_>) =
        headers.iter().partition(|(name, _)| CustomHeaders::is_sensitive(name));
    Ok(Json(HeadersOut {
        headers: shown.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
        sensitive: sensitive.into_iter().map(|(name, _)| name.to_owned()).collect(),
    }))
}

/// Replace the headers of an endpoint
#[utoipa::path(
    put, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", tag = "Endpoints", operation_id = "putEndpointHeaders",
    params(EndpointPathParams), request_body = HeadersIn,
    responses((status = 204, description = "The headers were replaced")),
)]
pub(super) async fn put(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Manage>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<StatusCode, RegistryError> {
    let body = incoming.read(&state, BODY_BYTES_MAX).await?;
    let headers = parse::<HeadersIn>(&body.bytes)?.headers;
    let headers = CustomHeaders::new(headers).map_err(|error| invalid_headers(&error))?;
    let endpoint = state.store.endpoints().get(app.scope(), &endpoint).await?;
    change(&state, endpoint.destination(), |_| Ok(headers.clone())).await
}

/// Change some headers of an endpoint
#[utoipa::path(
    patch, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/headers", tag = "Endpoints", operation_id = "patchEndpointHeaders",
    params(EndpointPathParams), request_body = HeadersPatch,
    responses((status = 204, description = "The headers were changed")),
)]
pub(super) async fn patch(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Manage>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<StatusCode, RegistryError> {
    let body = incoming.read(&state, BODY_BYTES_MAX).await?;
    let HeadersPatch { headers, delete_headers } = parse(&body.bytes)?;
    let removed = delete_headers.into_iter().flatten().map(|name| (name, None));
    let changes: Vec<(String, Option<String>)> = headers.into_iter().chain(removed).collect();
    let endpoint = state.store.endpoints().get(app.scope(), &endpoint).await?;
    change(&state, endpoint.destination(), |present| present.merge(changes.clone())).await
}

/// Replaces the headers by what `next` makes of the present ones. Starts again if another change comes in between.
async fn change(
    state: &ApiState,
    destination: DestinationId,
    next: impl Fn(CustomHeaders) -> Result<CustomHeaders, InvalidHeaders>,
) -> Result<StatusCode, RegistryError> {
    for _ in 1..TRIES_MAX {
        match try_change(state, destination, &next).await {
            Err(RegistryError::Store(StoreError::Busy { .. })) => {}
            changed => return changed,
        }
    }
    try_change(state, destination, &next).await
}

async fn try_change(
    state: &ApiState,
    destination: DestinationId,
    next: impl Fn(CustomHeaders) -> Result<CustomHeaders, InvalidHeaders>,
) -> Result<StatusCode, RegistryError> {
    let endpoints = state.store.endpoints();
    let stored = endpoints.headers(destination).await?;
    let headers =
        next(state.registry.open_headers(stored.as_ref())?).map_err(|error| invalid_headers(&error))?;
    let sealed = (!headers.is_empty()).then(|| state.registry.seal(&headers.encode()));
    endpoints.set_headers(destination, stored.map(|stored| stored.id), sealed.as_ref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

impl RegistryState {
    /// Opens the sealed custom headers of a destination.
    pub(crate) fn open_headers(&self, stored: Option<&SealedValue>) -> Result<CustomHeaders, RegistryError> {
        let Some(stored) = stored else { return Ok(CustomHeaders::default()) };
        CustomHeaders::decode(&self.open(stored)?).map_err(|_| RegistryError::Internal)
    }
}

/// Reports refused headers with the name of the header, where one is to blame.
pub(super) fn invalid_headers(error: &InvalidHeaders) -> RegistryError {
    match error {
        InvalidHeaders::Name(name) | InvalidHeaders::Reserved(name) | InvalidHeaders::Value(name) => {
            RegistryError::in_fields(&["body", "headers", name], error)
        }
        InvalidHeaders::TooMany(_) | InvalidHeaders::Unreadable => RegistryError::in_body("headers", error),
    }
}
