//! Without keys, only this machine is answered, and no page that a browser on it happens to show.

use axum::body::Body;
use http::{Method, Request};

use crate::stage::{EVENTS, OVERVIEW, Stage, call, event, header};

fn to(host: &str, path: &str) -> Request<Body> {
    Request::builder().uri(path).header("host", host).body(Body::empty()).unwrap()
}

#[tokio::test]
async fn a_host_that_is_not_this_machine_is_refused_everywhere() {
    let stage = Stage::on_memory().await;
    let paths = [OVERVIEW, EVENTS, "/metrics", "/healthz", "/readyz", "/openapi.json", "/docs", "/nowhere"];
    for path in paths {
        let (message, _) = stage.send(to("rebound.example:8600", path)).await.refused(403, "forbidden");
        assert!(message.contains("http://127.0.0.1:8600"), "{path}: {message}");
    }
    for host in ["localhost:8600", "127.0.0.1:8600", "[::1]:8600", "127.1.2.3", "localhost:8601"] {
        assert_eq!(stage.send(to(host, OVERVIEW)).await.status.as_u16(), 200, "{host}");
    }
    let nameless = Request::builder().uri(OVERVIEW).body(Body::empty()).unwrap();
    stage.send(nameless).await.refused(403, "forbidden");
}

#[tokio::test]
async fn another_pages_requests_are_refused() {
    let stage = Stage::on_memory().await;
    let cases = [
        ("http://evil.example", 403),
        ("https://localhost:8600", 403),
        ("http://localhost:3000", 403),
        ("null", 403),
        ("http://localhost:8600", 202),
    ];
    for (origin, status) in cases {
        let answer = stage.post_with(EVENTS, &[header("origin", origin)], event().to_string()).await;
        assert_eq!(answer.status.as_u16(), status, "{origin}: {}", answer.text());
    }
    for (site, status) in [("cross-site", 403), ("same-site", 403), ("same-origin", 202), ("none", 202)] {
        let answer = stage.post_with(EVENTS, &[header("sec-fetch-site", site)], event().to_string()).await;
        assert_eq!(answer.status.as_u16(), status, "{site}");
    }
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 3);
}

#[tokio::test]
async fn a_form_cannot_post() {
    let stage = Stage::on_memory().await;
    for content_type in ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"]
    {
        let headers = [header("content-type", content_type)];
        let request = call(Method::POST, EVENTS, &headers, Body::from(event().to_string()));
        stage.send(request).await.refused(400, "invalid_request");
    }
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 0);
}

#[tokio::test]
async fn no_other_origin_is_let_in_by_cors() {
    let stage = Stage::on_memory().await;
    let preflight =
        [header("origin", "http://localhost:8600"), header("access-control-request-method", "POST")];
    let answer = stage.send(call(Method::OPTIONS, EVENTS, &preflight, Body::empty())).await;
    answer.refused(405, "method_not_allowed");
    assert!(answer.headers.keys().all(|name| !name.as_str().starts_with("access-control-")));
}
