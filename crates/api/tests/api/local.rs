//! Without keys, the API accepts requests from this machine only, and none from foreign web pages.

use axum::body::Body;
use http::{Method, Request};

use crate::test_api::{EVENTS, OVERVIEW, TestApi, build_request, event, header};

fn to(host: &str, path: &str) -> Request<Body> {
    Request::builder().uri(path).header("host", host).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_host_that_is_not_loopback_is_rejected_on_every_path() {
    let api = TestApi::on_memory().await;
    let paths = [OVERVIEW, EVENTS, "/metrics", "/healthz", "/readyz", "/openapi.json", "/docs", "/nowhere"];
    for path in paths {
        let (message, _) = api.send(to("rebound.example:8600", path)).await.expect_error(403, "forbidden");
        assert!(message.contains("http://127.0.0.1:8600"), "{path}: {message}");
    }
    for host in ["localhost:8600", "127.0.0.1:8600", "[::1]:8600", "127.1.2.3", "localhost:8601"] {
        assert_eq!(api.send(to(host, OVERVIEW)).await.status.as_u16(), 200, "{host}");
    }
    let without_host = Request::builder().uri(OVERVIEW).body(Body::empty()).unwrap();
    api.send(without_host).await.expect_error(403, "forbidden");
}

#[tokio::test]
async fn requests_from_other_web_pages_are_rejected() {
    let api = TestApi::on_memory().await;
    let cases = [
        ("http://evil.example", 403),
        ("https://localhost:8600", 403),
        ("http://localhost:3000", 403),
        ("null", 403),
        ("http://localhost:8600", 202),
    ];
    for (origin, status) in cases {
        let response = api.post_with(EVENTS, &[header("origin", origin)], event().to_string()).await;
        assert_eq!(response.status.as_u16(), status, "{origin}: {}", response.text());
    }
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 202), ("none", 202)] {
        let response = api.post_with(EVENTS, &[header("sec-fetch-site", site)], event().to_string()).await;
        assert_eq!(response.status.as_u16(), status, "{site}");
    }
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 3);
}

#[tokio::test]
async fn an_html_form_cannot_enqueue() {
    let api = TestApi::on_memory().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        let headers = [header("content-type", content_type)];
        let request = build_request(Method::POST, EVENTS, &headers, Body::from(event().to_string()));
        api.send(request).await.expect_error(400, "invalid_request");
    }
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 0);
}

#[tokio::test]
async fn cors_allows_no_other_origin() {
    let api = TestApi::on_memory().await;
    let preflight =
        [header("origin", "http://localhost:8600"), header("access-control-request-method", "POST")];
    let response = api.send(build_request(Method::OPTIONS, EVENTS, &preflight, Body::empty())).await;
    response.expect_error(405, "method_not_allowed");
    assert!(response.headers.keys().all(|name| !name.as_str().starts_with("access-control-")));
}
