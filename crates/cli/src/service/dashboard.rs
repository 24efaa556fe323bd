//! Serves the operators' page at `/`, and at `/portal` the customers' page, which links with a token of an application open.

use std::sync::Arc;

use axum::Router;
use axum::http::header::{
    ACCEPT_ENCODING, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG,
    IF_NONE_MATCH, VARY,
};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

/// Creates the routes of the pages and their assets. Pages of `frame_origins` may show the customers' page in a frame.
pub(crate) fn router(frame_origins: &[String]) -> Router {
    let policy: Arc<str> = posthaste_dashboard::framed_policy(frame_origins).into();
    let portal = move |uri, headers: HeaderMap| serve(uri, headers, Arc::clone(&policy));
    Router::new()
        .route("/", get(serve_asset))
        .route("/portal", get(portal))
        .route("/assets/{version}/{name}", get(serve_asset))
}

async fn serve_asset(uri: Uri, headers: HeaderMap) -> Response {
    serve(uri, headers, posthaste_dashboard::CONTENT_SECURITY_POLICY.into()).await
}

async fn serve(uri: Uri, headers: HeaderMap, policy: Arc<str>) -> Response {
    let Some(asset) = posthaste_dashboard::asset(uri.path()) else {
        return posthaste_api::route_not_found(uri).await;
    };
    let is_cached = headers.get(IF_NONE_MATCH).is_some_and(|etag| etag.as_bytes() == asset.etag.as_bytes());
    let cache_control = if asset.cacheable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let accepts_gzip = accepts_gzip(&headers);
    let headers = [
        (CONTENT_TYPE, asset.content_type),
        (VARY, "accept-encoding"),
        (ETAG, &asset.etag),
        (CACHE_CONTROL, cache_control),
        (CONTENT_SECURITY_POLICY, &policy),
    ];
    if is_cached {
        return (StatusCode::NOT_MODIFIED, headers).into_response();
    }
    if accepts_gzip {
        return (headers, [(CONTENT_ENCODING, "gzip")], asset.gzip).into_response();
    }
    (headers, asset.bytes.into_owned()).into_response()
}

/// Returns whether the client lists gzip without a weight, as browsers do. Other clients get the plain bytes.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    let mut codings = values.flat_map(|value| value.split(','));
    codings.any(|coding| coding.trim().eq_ignore_ascii_case("gzip"))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use http_body_util::BodyExt as _;
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use serde_json::Value;

    use super::*;

    async fn get(path: &str) -> (StatusCode, String) {
        let request = Request::builder().uri(path).body(Body::empty()).unwrap();
        let response = TowerToHyperService::new(router(&[])).call(request).await.unwrap();
        let status = response.status();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn only_the_portal_may_be_framed_and_only_by_configured_origins() {
        let router = router(&["https://shop.example".to_owned()]);
        for (path, ancestors) in [("/", "'none'"), ("/portal", "https://shop.example")] {
            let request = Request::builder().uri(path).body(Body::empty()).unwrap();
            let response = TowerToHyperService::new(router.clone()).call(request).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            let policy = response.headers()[CONTENT_SECURITY_POLICY].to_str().unwrap();
            assert!(policy.ends_with(&format!("; frame-ancestors {ancestors}")), "{path}: {policy}");
        }
    }

    #[tokio::test]
    async fn a_client_that_accepts_gzip_gets_fewer_bytes_of_the_same_file() {
        let size_of = async |encoding: &str| {
            let request = Request::builder().uri("/assets/_/app.js").header(ACCEPT_ENCODING, encoding);
            let request = request.body(Body::empty()).unwrap();
            let response = TowerToHyperService::new(router(&[])).call(request).await.unwrap();
            assert_eq!(response.headers()[VARY], "accept-encoding");
            let is_compressed = response.headers().contains_key(CONTENT_ENCODING);
            let body = response.into_body().collect().await.unwrap().to_bytes();
            assert_eq!(is_compressed, body.starts_with(&[0x1f, 0x8b]));
            body.len()
        };
        let plain = size_of("identity").await;
        assert!(size_of("br, gzip").await < plain / 2);
        assert_eq!(size_of("gzip;q=0, br").await, plain);
    }

    #[tokio::test]
    async fn missing_asset_gets_the_not_found_error_of_the_api() {
        assert_eq!(get("/assets/_/app.js").await.0, StatusCode::OK);
        let (status, body) = get("/assets/_/missing.js").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        let body: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body["error"]["code"], "not_found");
        assert!(body["error"]["message"].as_str().unwrap().contains("/assets/_/missing.js"), "{body}");
    }
}
