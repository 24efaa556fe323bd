//! Responses of a process that serves no requests, because it is starting or stopping. Public for servers around the API.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use http::header::{CONNECTION, HeaderValue};

use crate::error::ApiError;
use crate::headers::set_defaults;
use crate::health::{Check, HealthBody, ReadinessBody};

/// Returns the response of `/healthz`: the process is running.
pub fn alive() -> Response {
    with_defaults(Json(HealthBody { status: "ok" }).into_response())
}

/// Returns the response of `/readyz` with the check that fails.
pub fn not_ready(name: &'static str, detail: &str) -> Response {
    let check = Check { name, ok: false, detail: detail.to_owned() };
    let body = ReadinessBody { status: "unavailable", checks: vec![check] };
    with_defaults((StatusCode::SERVICE_UNAVAILABLE, Json(body)).into_response())
}

/// Returns the response to any other request: 503 `unavailable`. It closes the connection, so that a load balancer opens its
/// next one elsewhere.
pub fn unavailable(message: &'static str) -> Response {
    let mut response = ApiError::Busy(message).into_response();
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    with_defaults(response)
}

fn with_defaults(mut response: Response) -> Response {
    set_defaults(&mut response);
    response
}
