//! The operator's page at `/`.

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;

pub(crate) fn router() -> Router {
    Router::new().route("/", get(asset)).route("/assets/{version}/{name}", get(asset))
}

async fn asset(uri: Uri, headers: HeaderMap) -> Response {
    let Some(asset) = posthaste_dashboard::asset(uri.path()) else {
        return posthaste_api::route_not_found(uri).await;
    };
    let kept = headers.get(IF_NONE_MATCH).is_some_and(|etag| etag.as_bytes() == asset.etag.as_bytes());
    let cache = if asset.cacheable { "public, max-age=31536000, immutable" } else { "no-cache" };
    let about = [
        (CONTENT_TYPE, asset.content_type),
        (ETAG, &asset.etag),
        (CACHE_CONTROL, cache),
        (CONTENT_SECURITY_POLICY, posthaste_dashboard::CONTENT_SECURITY_POLICY),
    ];
    if kept {
        return (StatusCode::NOT_MODIFIED, about).into_response();
    }
    (about, asset.bytes.into_owned()).into_response()
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
        let answer = TowerToHyperService::new(router()).call(request).await.unwrap();
        let status = answer.status();
        let body = answer.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    #[tokio::test]
    async fn an_asset_that_is_missing_is_refused_like_everything_else() {
        assert_eq!(get("/assets/_/app.js").await.0, StatusCode::OK);
        let (status, body) = get("/assets/_/missing.js").await;
        assert_eq!(status, StatusCode::NOT_FOUND);
        let told: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(told["error"]["code"], "not_found");
        assert!(told["error"]["message"].as_str().unwrap().contains("/assets/_/missing.js"), "{told}");
    }
}
