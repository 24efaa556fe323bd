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
    let may_be_framed = may_be_framed(response);
    for (name, value) in DEFAULTS {
        if name != X_FRAME_OPTIONS || !may_be_framed {
            response.headers_mut().entry(name).or_insert(value);
        }
    }
}

/// Returns whether the policy of the response itself names origins that may frame it. An older browser that knows only
/// `x-frame-options` cannot tell origins apart.
fn may_be_framed(response: &Response) -> bool {
    let policy = response.headers().get(CONTENT_SECURITY_POLICY).and_then(|policy| policy.to_str().ok());
    policy
        .and_then(|policy| policy.split_once("frame-ancestors "))
        .is_some_and(|(_, origins)| origins != "'none'")
}
