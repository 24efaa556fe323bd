//! The operator's page at `/`.

use axum::Router;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

pub fn router() -> Router {
    Router::new().route("/", get(asset)).route("/assets/{version}/{name}", get(asset))
}

async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = posthaste_dashboard::asset(uri.path()) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let kept = headers.get(IF_NONE_MATCH).is_some_and(|etag| etag.as_bytes() == asset.etag.as_bytes());
    let cache = if asset.cacheable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let about = [
        (CONTENT_TYPE, asset.content_type),
        (ETAG, &asset.etag),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, posthaste_dashboard::CONTENT_SECURITY_POLICY),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (REFERRER_POLICY, "no-referrer"),
    ];
    if kept {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, asset.bytes.into_owned()).into_response()
}
