//! Probes in the form that the SDKs expect.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, StatusCode};
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::ApiState;
use crate::registry::sdk_version::without_content_for_version_1;
use crate::registry::settings::store_now;

/// The state of the server.
#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(super) struct HealthOut {
    /// `ok`, or `unavailable` while the store does not respond.
    status: &'static str,
}

/// Check the server
#[utoipa::path(
    get, path = "/api/v1/health", tag = "Service", operation_id = "getRegistryHealth", security(()),
    responses(
        (status = 200, description = "The store responds", body = HealthOut),
        (status = 204, description = "The store responds: the response to SDKs of version 1, which accept no other"),
        (status = 503, description = "The store does not respond", body = HealthOut),
    ),
)]
pub(super) async fn health(State(state): State<Arc<ApiState>>, headers: HeaderMap) -> Response {
    match store_now(&state).await {
        Ok(_) => without_content_for_version_1(&headers, Json(HealthOut { status: "ok" }).into_response()),
        Err(_) => {
            (StatusCode::SERVICE_UNAVAILABLE, Json(HealthOut { status: "unavailable" })).into_response()
        }
    }
}

/// Check that the process responds
#[utoipa::path(
    get, path = "/api/v1/health/ping", tag = "Service", operation_id = "ping", security(()),
    responses((status = 204, description = "The process responds")),
)]
pub(super) async fn ping() -> StatusCode {
    StatusCode::NO_CONTENT
}
