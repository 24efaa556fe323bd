//! Every error that the document tells of can be made to happen, and every error has the envelope.

use std::sync::Arc;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use http::{Method, Request};
use serde_json::json;

use crate::stage::{
    Answer, DLQ, EVENTS, Fault, Faulty, OPERATOR, Operation, PAYLOAD_BYTES_MAX, PRODUCER, Panicking, Setting,
    Stage, VIEWER, bearer, call, event, header, operations,
};

/// A request that the operation would serve.
fn good(operation: &Operation, event_id: &str) -> Request<Body> {
    let path = operation.path.replace("{event_id}", event_id);
    let body = if operation.id == "enqueueEvents" { event().to_string() } else { String::new() };
    let headers = [header("content-type", "application/json")];
    call(operation.method.clone(), &path, &headers, Body::from(body))
}

fn with_body(operation: &Operation, event_id: &str, body: Body) -> Request<Body> {
    let mut request = good(operation, event_id);
    *request.body_mut() = body;
    request
}

fn with_header(mut request: Request<Body>, name: &'static str, value: &str) -> Request<Body> {
    let (name, value) = header(name, value);
    request.headers_mut().insert(name, value);
    request
}

/// The answer that has this code, from a service that is set up for it.
async fn provoke(operation: &Operation, code: &str) -> Answer {
    let stage = Stage::on_memory().await;
    match code {
        "unauthorized" => stage.with_keys().send(good(operation, "nobody")).await,
        "forbidden" if operation.public => {
            stage.send(with_header(good(operation, ""), "host", "hooks.example")).await
        }
        "forbidden" => {
            let wrong = if operation.id == "enqueueEvents" { VIEWER } else { PRODUCER };
            let wrong = if operation.id == "getEvent" { "nobody" } else { wrong };
            if wrong == "nobody" {
                return stage.send(with_header(good(operation, "x"), "host", "hooks.example")).await;
            }
            let key = format!("Bearer {wrong}");
            stage.with_keys().send(with_header(good(operation, "x"), "authorization", &key)).await
        }
        "internal" if operation.id == "getReadiness" => {
            let setting = Setting { readiness: Arc::new(Panicking), ..Setting::default() };
            stage.with(setting).send(good(operation, "")).await
        }
        "internal" => Faulty::stage(Fault::Panics).send(good(operation, "nobody")).await,
        "unavailable" => Faulty::stage(Fault::Unavailable).send(good(operation, "nobody")).await,
        "webhook_outbox_event_not_found" => stage.send(good(operation, "nobody")).await,
        "webhook_outbox_event_not_requeueable" | "webhook_outbox_event_not_cancellable" => {
            let event_id = stage.delivered(&event()).await;
            stage.send(good(operation, &event_id)).await
        }
        "idempotency_key_conflict" => {
            let keyed = |body: &str| {
                with_header(with_body(operation, "", Body::from(body.to_owned())), "idempotency-key", "k")
            };
            stage.send(keyed(&event().to_string())).await.json(202);
            stage.send(keyed(&json!([event()]).to_string())).await
        }
        "event_id_taken" => {
            let mut named = event();
            named["event_id"] = json!("order-17");
            stage.enqueue(&named).await.json(202);
            stage.enqueue(&named).await
        }
        "payload_too_large" => {
            let mut large = event();
            large["payload"] = json!("x".repeat(PAYLOAD_BYTES_MAX.max(16 << 10)));
            stage.send(with_body(operation, "nobody", Body::from(large.to_string()))).await
        }
        "request_timeout" => {
            let stuck = Body::from_stream(stream::pending::<Result<Bytes, std::io::Error>>());
            stage.send(with_body(operation, "nobody", stuck)).await
        }
        "invalid_request" if operation.id == "followNotices" => {
            stage.send(with_header(good(operation, ""), "last-event-id", "yesterday")).await
        }
        "invalid_request" if operation.method == Method::POST => {
            stage.send(with_body(operation, "nobody", Body::from("{\"surprise\":1}"))).await
        }
        "invalid_request" => {
            let path = operation.path.replace("{event_id}", "nobody") + "?surprise=1";
            stage.get(&path).await
        }
        other => panic!("{} documents {other}, and no test makes it happen", operation.id),
    }
}

#[tokio::test(start_paused = true)]
async fn every_documented_error_can_be_made_to_happen() {
    let mut provoked = 0;
    for operation in operations() {
        for status in operation.responses.keys().filter(|status| status.as_str() >= "400") {
            for code in operation.codes(status) {
                provoke(operation, &code).await.refused(status.parse().unwrap(), &code);
                provoked += 1;
            }
        }
    }
    assert!(provoked >= 60, "{provoked}");
}

#[tokio::test]
async fn what_goes_wrong_inside_is_not_told_to_clients() {
    for (fault, status, code) in [
        (Fault::Unavailable, 503, "unavailable"),
        (Fault::Rejected, 500, "internal"),
        (Fault::Panics, 500, "internal"),
    ] {
        let stage = Faulty::stage(fault);
        for operation in
            operations().iter().filter(|operation| !operation.public && operation.id != "getMetrics")
        {
            let answer = stage.send(good(operation, "nobody")).await;
            let (message, details) = answer.refused(status, code);
            assert!(!answer.text().contains("internal.example"), "{}: {message}", operation.id);
            assert_eq!(details, json!(null));
            assert_eq!(answer.header("retry-after").is_some(), status == 503);
            if status == 503 {
                let told = "the store is unavailable; repeat the request in a moment, an enqueue under the same \
                            Idempotency-Key, because it may have been carried out";
                assert_eq!(message, told, "for whoever reads and whoever writes");
            }
        }
    }
}

#[tokio::test]
async fn unknown_routes_and_methods_have_the_envelope_too() {
    let stage = Stage::on_memory().await;
    for path in [
        "/nowhere",
        "/v1",
        "/v1/webhook-outbox",
        "/v2/webhook-outbox/overview",
        "/v1/webhook-outbox/events/a/b",
    ] {
        let (message, _) = stage.get(path).await.refused(404, "not_found");
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
        let answer = stage.send(call(method.clone(), path, &[], Body::empty())).await;
        let (message, _) = answer.refused(405, "method_not_allowed");
        assert!(message.contains(method.as_str()), "{message}");
        let mut allow: Vec<&str> = answer.header("allow").unwrap().split(',').collect();
        allow.sort_unstable();
        assert_eq!(allow.join(","), allowed, "{path}");
    }
}

#[tokio::test]
async fn every_answer_has_the_guarding_headers() {
    let stage = Stage::on_memory().await;
    let keyed = stage.with_keys();
    let answers = [
        stage.get("/healthz").await,
        stage.get("/openapi.json").await,
        stage.get("/nowhere").await,
        stage.get(&format!("{EVENTS}?x")).await,
        stage.enqueue(&event()).await,
        stage.send(call(Method::DELETE, EVENTS, &[], Body::empty())).await,
        keyed.get(EVENTS).await,
        keyed.send(call(Method::POST, EVENTS, &[bearer(OPERATOR)], Body::empty())).await,
        Faulty::stage(Fault::Panics).get(DLQ).await,
        stage.get("/metrics").await,
    ];
    for answer in answers {
        let guarding = [
            ("x-content-type-options", "nosniff"),
            ("cache-control", "no-store"),
            ("content-security-policy", "default-src 'none'; frame-ancestors 'none'"),
            ("referrer-policy", "no-referrer"),
            ("x-frame-options", "DENY"),
            ("cross-origin-resource-policy", "same-origin"),
        ];
        for (name, value) in guarding {
            assert_eq!(answer.header(name), Some(value), "{}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_head_is_answered_like_a_get_without_its_body() {
    let stage = Stage::on_memory().await;
    let answer = stage.send(call(Method::HEAD, EVENTS, &[], Body::empty())).await;
    assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
}

#[tokio::test]
async fn a_service_whose_enqueuer_has_ended_is_unavailable() {
    let (store, _) = Faulty::store(Fault::None);
    let stage = Stage::without_enqueuer(Arc::clone(&store));
    stage.enqueue(&event()).await.refused(503, "unavailable");
    stage.get(EVENTS).await.json(200);
}
