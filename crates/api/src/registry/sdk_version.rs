//! The version of the SDK that sends a request. SDKs of version 1 take some responses for errors that later ones expect.

use axum::body::Body;
use axum::response::{IntoResponse as _, Response};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, StatusCode};

/// Removes the content of a successful response to an SDK of version 1: some of them, like the one for Python, accept only 204 here.
pub(super) fn without_content_for_version_1(headers: &HeaderMap, response: Response) -> Response {
    if !is_version_1(headers) || !response.status().is_success() {
        return response;
    }
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_TYPE);
    parts.headers.remove(CONTENT_LENGTH);
    parts.status = StatusCode::NO_CONTENT;
    (parts, Body::empty()).into_response()
}

fn is_version_1(headers: &HeaderMap) -> bool {
    headers
        .get(USER_AGENT)
        .and_then(|agent| agent.to_str().ok())
        .is_some_and(|agent| agent.starts_with("svix-libs/1."))
}
