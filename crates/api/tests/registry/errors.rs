//! Errors have the forms that the SDKs parse.

use axum::body::Body;
use http::Method;
use serde_json::json;

use crate::fixture::TestRegistry;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

#[tokio::test]
async fn routes_that_the_sdks_know_and_this_server_lacks_are_not_supported() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    for (method, path) in [
        (Method::GET, "/api/v1/app/shop/endpoint/r/attempt-stats"),
        (Method::POST, "/api/v1/app/shop/endpoint/r/bulk-replay"),
        (Method::PATCH, "/api/v1/app/shop/endpoint/r/transformation"),
        (Method::GET, "/api/v1/app/shop/integration"),
        (Method::POST, "/api/v1/app/shop/msg/expunge-all-contents"),
        (Method::POST, "/api/v1/auth/logout"),
        (Method::GET, "/api/v1/environment/export"),
        (Method::POST, "/api/v1/event-type/import/openapi"),
        (Method::GET, "/api/v1/background-task"),
        (Method::PUT, "/api/v1/stats/usage/event-types"),
        (Method::GET, "/api/v1"),
        (Method::GET, "/api/v1/"),
    ] {
        let reply = registry.send(method, path, &[], Body::empty()).await;
        let detail = reply.error(404, "not_supported");
        assert!(detail.contains(path), "{detail}");
    }
}

#[tokio::test]
async fn a_method_that_a_path_lacks_is_refused_with_those_that_it_has() {
    let registry = TestRegistry::new();
    for (method, path) in [
        (Method::DELETE, "/api/v1/app"),
        (Method::POST, "/api/v1/app/shop/"),
        (Method::PUT, "/api/v1/health"),
    ] {
        let reply = registry.send(method, path, &[], Body::empty()).await;
        assert!(reply.headers["allow"].to_str().unwrap().contains("GET"));
        reply.error(405, "method_not_allowed");
    }
}

#[tokio::test]
async fn a_body_that_is_no_json_object_is_a_422() {
    let registry = TestRegistry::new();
    for text in
        ["", "{", "not json", "{\"name\":\"n\"} x", "[]", "\"text\"", "null", "{\"name\":\"\\ud800\"}"]
    {
        let reply = registry.send(Method::POST, "/api/v1/app", &JSON, text).await;
        let body = reply.json(422);
        assert_eq!(body["detail"][0]["loc"][0], "body", "{text}: {body}");
    }
    let duplicate = registry.send(Method::POST, "/api/v1/app", &JSON, r#"{"name":"a","name":"b"}"#).await;
    assert!(duplicate.json(422)["detail"][0]["msg"].as_str().unwrap().contains("duplicate field"));
}

#[tokio::test]
async fn a_body_must_be_declared_as_json() {
    let registry = TestRegistry::new();
    for headers in [
        &[][..],
        &[("content-type", "text/plain")],
        &[("content-type", "application/json"), ("content-encoding", "gzip")],
    ] {
        let reply = registry.send(Method::POST, "/api/v1/app", headers, r#"{"name":"n"}"#).await;
        reply.error(415, "unsupported_media_type");
    }
    let charset = [("content-type", "application/json; charset=utf-8")];
    registry.send(Method::POST, "/api/v1/app", &charset, r#"{"name":"n"}"#).await.json(201);
}

#[tokio::test]
async fn a_missing_field_is_named_and_unknown_ones_are_ignored() {
    let registry = TestRegistry::new();
    registry.post("/app", json!({ "uid": "u" })).await.invalid(&["body", "name"]);
    registry.post("/app", json!({ "name": 7 })).await.invalid(&["body", "name"]);
    registry.post("/app", json!({ "name": " " })).await.invalid(&["body", "name"]);
    registry.post("/app", json!({ "name": "n", "uid": "app_x" })).await.invalid(&["body", "uid"]);
    registry.post("/app", json!({ "name": "n", "throttleRate": 0 })).await.invalid(&["body", "throttleRate"]);
    registry
        .post("/app", json!({ "name": "n", "metadata": { "k": 1 } }))
        .await
        .invalid(&["body", "metadata", "k"]);
    registry.post("/app?unknown=1", json!({ "name": "n", "newerField": {} })).await.json(201);
}

#[tokio::test]
async fn what_a_caller_wrote_comes_back_as_json_that_no_browser_runs() {
    let registry = TestRegistry::new();
    let script = "<script>alert(1)</script>";
    let created = registry.post("/app", json!({ "name": script })).await;
    assert_eq!(created.json(201)["name"], script);
    let policy = created.headers["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("default-src 'none'"), "{policy}");
    let refused = registry.get("/app/%3Cscript%3Ealert(1)%3C%2Fscript%3E").await;
    assert!(refused.error(404, "not_found").contains(script));
    let unsupported = registry.get("/unknown/%3Cscript%3E").await;
    unsupported.error(404, "not_supported");
}

#[tokio::test]
async fn texts_of_the_path_that_can_be_no_id_are_not_found() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    for path in [
        "/app/a%20b",
        "/app/app_xyz",
        "/app/%FF",
        "/app/shop/endpoint/a%20b",
        "/app/shop/msg/msg_x",
        "/event-type/a%20b",
    ] {
        registry.get(path).await.error(404, "not_found");
    }
}

#[tokio::test]
async fn the_health_of_the_server_needs_no_key() {
    let registry = TestRegistry::new().with_bearer("");
    assert_eq!(registry.get("/health").await.json(200), json!({ "status": "ok" }));
    registry.get("/health/ping").await.empty(204);
    registry.get("/health/ping/").await.empty(204);
}
