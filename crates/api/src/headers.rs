//! Default response headers: no content sniffing, no caching, no framing, no sharing with other origins.

use axum::extract::Request;
use axum::middleware::Next;
use axum::response::Response;
use http::HeaderValue;
use http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderName, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};

/// Headers that every response gets unless its handler has set them.
const DEFAULTS: [(HeaderName, HeaderValue); 6] = [
    (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
    (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    (CONTENT_SECURITY_POLICY, HeaderValue::from_static("default-src 'none'; frame-ancestors 'none'")),
    (REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    (X_FRAME_OPTIONS, HeaderValue::from_static("DENY")),
    (HeaderName::from_static("cross-origin-resource-policy"), HeaderValue::from_static("same-origin")),
];

/// Middleware: adds the default headers to every response.
pub(crate) async fn add_default_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    set_defaults(&mut response);
    response
}

/// Adds each default header that the response does not have yet.
pub(crate) fn set_defaults(response: &mut Response) {
    for (name, value) in DEFAULTS {
        response.headers_mut().entry(name).or_insert(value);
    }
}
