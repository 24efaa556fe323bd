//! Every documented error can occur, and every error has the envelope.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request};
use serde_json::json;

use crate::test_api::{
    DLQ, DocumentedOperation, EVENTS, Fault, FaultyStore, PAYLOAD_BYTES_MAX, PRODUCER, PanickingReadiness,
    TestApi, TestOptions, TestResponse, VIEWER, bearer, build_request, documented_operations, event, header,
};

/// The path of the operation, for an event and for a destination and an operation that do not exist.
fn path_of(operation: &DocumentedOperation, event_id: &str) -> String {
    let path = operation.path.replace("{event_id}", event_id).replace("{destination_id}", "404");
    let operation = if path.contains("/bulk/") { "bulk_0000000000000404" } else { "qtask_0000000000000404" };
    path.replace("{operation_id}", operation)
}

/// A valid request to the operation.
fn valid_request(operation: &DocumentedOperation, event_id: &str) -> Request<Body> {
    let path = path_of(operation, event_id);
    let body = match operation.id.as_str() {
        "enqueueEvents" => event().to_string(),
        "startBulkOperation" => json!({ "action": "requeue" }).to_string(),
        _ => String::new(),
    };
    let headers = [header("content-type", "application/json")];
    build_request(operation.method.clone(), &path, &headers, Body::from(body))
}

fn with_body(operation: &DocumentedOperation, event_id: &str, body: Body) -> Request<Body> {
    let mut request = valid_request(operation, event_id);
    *request.body_mut() = body;
    request
}

fn with_header(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    let (name, value) = header(name, value);
    request.headers_mut().insert(name, value);
    request
}

/// Sets up an API and sends a request that leads to this error code.
async fn trigger_error(operation: &DocumentedOperation, code: &str) -> TestResponse {
    let api = TestApi::on_memory().await;
    match code {
        "unauthorized" => api.with_keys().send(valid_request(operation, "missing")).await,
        "forbidden" if operation.public || operation.id == "getCaller" => {
            api.send(with_header(valid_request(operation, ""), "host", "hooks.example")).await
        }
        "forbidden" => {
            let wrong_key = if operation.id == "enqueueEvents" { VIEWER } else { PRODUCER };
            let wrong_key = if operation.id == "getEvent" { "missing" } else { wrong_key };
            if wrong_key == "missing" {
                return api.send(with_header(valid_request(operation, "x"), "host", "hooks.example")).await;
            }
            let key = format!("Bearer {wrong_key}");
            api.with_keys().send(with_header(valid_request(operation, "x"), "authorization", &key)).await
        }
        "internal" if operation.id == "getReadiness" => {
            let options = TestOptions { readiness: Arc::new(PanickingReadiness), ..TestOptions::default() };
            api.with_options(options).send(valid_request(operation, "")).await
        }
        "internal" => FaultyStore::api(Fault::Panics).send(valid_request(operation, "missing")).await,
        "unavailable" => FaultyStore::api(Fault::Unavailable).send(valid_request(operation, "missing")).await,
        "webhook_outbox_event_not_found" | "destination_not_found" | "operation_not_found" => {
            api.send(valid_request(operation, "missing")).await
        }
        "webhook_outbox_event_not_requeueable"
        | "webhook_outbox_event_not_cancellable"
        | "webhook_outbox_event_not_discardable" => {
            let event_id = api.delivered_event(&event()).await;
            api.send(valid_request(operation, &event_id)).await
        }
        "webhook_outbox_event_not_replayable" => {
            let event_id = api.pending_event(&event()).await;
            api.send(valid_request(operation, &event_id)).await
        }
        "webhook_outbox_event_content_removed" => {
            let published = api.publish_to_endpoint().await;
            let event_id = api.deliver_published().await;
            let messages = format!("/api/v1/app/{}/msg", published.app_id);
            let message = api.get(&messages).await.json(200)["data"][0]["id"].as_str().unwrap().to_owned();
            let content = format!("{messages}/{message}/content");
            let removed = api.send(build_request(Method::DELETE, &content, &[], Body::empty())).await;
            assert_eq!(removed.status, 204);
            api.send(valid_request(operation, &event_id)).await
        }
        "endpoint_not_found" => {
            let published = api.publish_to_endpoint().await;
            let event_id = api.deliver_published().await;
            let endpoint = format!("/api/v1/app/{}/endpoint/{}", published.app_id, published.endpoint_id);
            let deleted = api.send(build_request(Method::DELETE, &endpoint, &[], Body::empty())).await;
            assert_eq!(deleted.status, 204);
            api.send(valid_request(operation, &event_id)).await
        }
        "endpoint_disabled" => {
            let published = api.publish_to_endpoint().await;
            let event_id = api.deliver_published().await;
            let endpoint = format!("/api/v1/app/{}/endpoint/{}", published.app_id, published.endpoint_id);
            let disable = Body::from(json!({ "disabled": true }).to_string());
            let headers = [header("content-type", "application/json")];
            api.send(build_request(Method::PATCH, &endpoint, &headers, disable)).await.json(200);
            api.send(valid_request(operation, &event_id)).await
        }
        "idempotency_key_conflict" if operation.id == "startBulkOperation" => {
            let keyed = |action: &str| {
                let body = Body::from(json!({ "action": action }).to_string());
                with_header(with_body(operation, "", body), "idempotency-key", "k")
            };
            api.send(keyed("requeue")).await.json(202);
            api.send(keyed("discard")).await
        }
        "idempotency_key_conflict" if operation.id != "enqueueEvents" => {
            let keyed =
                |event_id: &str| with_header(valid_request(operation, event_id), "idempotency-key", "k");
            let ended = async || match operation.id.as_str() {
                "replayEvent" => api.delivered_event(&event()).await,
                _ => api.dead_lettered_event(&event()).await,
            };
            let (first, second) = (ended().await, ended().await);
            let done = api.send(keyed(&first)).await;
            assert!(done.status.is_success(), "{}", done.text());
            api.send(keyed(&second)).await
        }
        "idempotency_key_conflict" => {
            let keyed = |body: &str| {
                with_header(with_body(operation, "", Body::from(body.to_owned())), "idempotency-key", "k")
            };
            api.send(keyed(&event().to_string())).await.json(202);
            api.send(keyed(&json!([event()]).to_string())).await
        }
        "event_id_taken" => {
            let mut named = event();
            named["event_id"] = json!("order-17");
            api.enqueue(&named).await.json(202);
            api.enqueue(&named).await
        }
        "payload_too_large" => {
            let mut large = event();
            large["payload"] = json!("x".repeat(PAYLOAD_BYTES_MAX.max(16 << 10)));
            api.send(with_body(operation, "missing", Body::from(large.to_string()))).await
        }
        "request_timeout" => {
            let stuck = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
            api.send(with_body(operation, "missing", stuck)).await
        }
        "invalid_request" if operation.id == "followNotices" => {
            api.send(with_header(valid_request(operation, ""), "last-event-id", "yesterday")).await
        }
        "invalid_request" if operation.method == Method::POST => {
            api.send(with_body(operation, "missing", Body::from("{\"surprise\":1}"))).await
        }
        "invalid_request" => api.get(&format!("{}?surprise=1", path_of(operation, "missing"))).await,
        other => panic!("{} documents {other}, but this test cannot trigger it", operation.id),
    }
}

#[tokio::test(start_paused = true)]
async fn every_documented_error_can_occur() {
    let mut triggered = 0;
    for operation in documented_operations() {
        for status in operation.responses.keys().filter(|status| status.as_str() >= "400") {
            for code in operation.codes(status) {
                trigger_error(operation, &code).await.expect_error(status.parse().unwrap(), &code);
                triggered += 1;
            }
        }
    }
    assert!(triggered >= 60, "{triggered}");
}

#[tokio::test]
async fn internal_errors_are_not_shown_to_clients() {
    for (fault, status, code) in [
        (Fault::Unavailable, 503, "unavailable"),
        (Fault::Rejected, 500, "internal"),
        (Fault::Panics, 500, "internal"),
    ] {
        let api = FaultyStore::api(fault);
        let without_store = ["getMetrics", "getCaller", "getDiagnosis"];
        for operation in documented_operations()
            .iter()
            .filter(|operation| !operation.public && !without_store.contains(&operation.id.as_str()))
        {
            let response = api.send(valid_request(operation, "missing")).await;
            let (message, details) = response.expect_error(status, code);
            assert!(!response.text().contains("internal.example"), "{}: {message}", operation.id);
            assert_eq!(details, json!(null));
            assert_eq!(response.header("retry-after").is_some(), status == 503);
            if status == 503 {
                let expected = "the store is unavailable; repeat the request in a moment. Repeat an enqueue or an \
                                action with the same Idempotency-Key, because the first may have succeeded";
                assert_eq!(message, expected, "reads and writes have the same message");
            }
        }
    }
}

#[tokio::test]
async fn unknown_routes_and_methods_have_the_error_envelope() {
    let api = TestApi::on_memory().await;
    for path in [
        "/nowhere",
        "/v1",
        "/v1/webhook-outbox",
        "/v2/webhook-outbox/overview",
        "/v1/webhook-outbox/events/a/b",
    ] {
        let (message, _) = api.get(path).await.expect_error(404, "not_found");
        assert!(message.contains(path), "{message}");
    }
    let cases = [
        (Method::DELETE, EVENTS, "GET,HEAD,POST"),
        (Method::PUT, "/v1/webhook-outbox/events/x", "GET,HEAD"),
        (Method::GET, "/v1/webhook-outbox/dlq/x/requeue", "POST"),
        (Method::POST, DLQ, "GET,HEAD"),
        (Method::POST, "/metrics", "GET,HEAD"),
        (Method::POST, "/docs", "GET,HEAD"),
        (Method::from_bytes(b"BREW").unwrap(), EVENTS, "GET,HEAD,POST"),
    ];
    for (method, path, allowed) in cases {
        let response = api.send(build_request(method.clone(), path, &[], Body::empty())).await;
        let (message, _) = response.expect_error(405, "method_not_allowed");
        assert!(message.contains(method.as_str()), "{message}");
        let mut allow: Vec<&str> = response.header("allow").unwrap().split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{path}");
    }
}

#[tokio::test]
async fn every_response_has_the_security_headers() {
    let api = TestApi::on_memory().await;
    let keyed = api.with_keys();
    let responses = [
        api.get("/healthz").await,
        api.get("/openapi.json").await,
        api.get("/nowhere").await,
        api.get(&format!("{EVENTS}?x")).await,
        api.enqueue(&event()).await,
        api.send(build_request(Method::DELETE, EVENTS, &[], Body::empty())).await,
        keyed.get(EVENTS).await,
        keyed.send(build_request(Method::POST, EVENTS, &[bearer(VIEWER)], Body::empty())).await,
        FaultyStore::api(Fault::Panics).get(DLQ).await,
        api.get("/metrics").await,
    ];
    for response in responses {
        let expected = [
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ];
        for (name, value) in expected {
            assert_eq!(response.header(name), Some(value), "{}", response.text());
        }
    }
}

#[tokio::test]
async fn head_returns_the_status_of_get_without_a_body() {
    let api = TestApi::on_memory().await;
    let response = api.send(build_request(Method::HEAD, EVENTS, &[], Body::empty())).await;
    assert_eq!((response.status.as_u16(), response.body.len()), (200, 0));
}

#[tokio::test]
async fn reads_work_while_the_store_rejects_enqueues() {
    let api = FaultyStore::api(Fault::EnqueueUnavailable);
    api.enqueue(&event()).await.expect_error(503, "unavailable");
    api.get(EVENTS).await.json(200);
}
