//! Repeated requests get the first answer.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{APP_KEY, TestRegistry};

async fn registry() -> TestRegistry {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry.endpoint("r").await;
    registry
}

#[tokio::test]
async fn every_post_is_answered_once() {
    let registry = registry().await;
    let message = registry.message("a").await;
    let resend = format!("/app/shop/msg/{message}/endpoint/r/resend");
    let posts = [
        ("/app", json!({ "name": "n", "uid": "n" })),
        ("/app/shop/endpoint", json!({ "url": "https://n.example/", "uid": "n" })),
        ("/app/shop/endpoint/r/secret/rotate", json!({})),
        ("/app/shop/endpoint/r/send-example", json!({ "eventType": "a" })),
        ("/app/shop/endpoint/r/recover", json!({ "since": "2023-11-14T00:00:00Z" })),
        ("/app/shop/endpoint/r/replay-missing", json!({ "since": "2023-11-14T00:00:00Z" })),
        ("/app/shop/msg", json!({ "eventType": "a", "payload": { "n": 1 }, "eventId": "e" })),
        (resend.as_str(), json!({})),
        ("/event-type", json!({ "name": "n", "description": "" })),
        ("/auth/app-portal-access/shop", json!({})),
    ];
    for (path, body) in posts {
        let first = registry.post_as("key", path, body.clone()).await;
        assert!(first.status.is_success() && !first.is_replayed(), "{path}: {}", first.text());
        // Another process on the same store knows the answer too.
        for registry in [registry.clone(), registry.restarted()] {
            let again = registry.post_as("key", path, body.clone()).await;
            assert_eq!((again.status, again.text()), (first.status, first.text()), "{path}");
            assert!(again.is_replayed(), "{path}");
            let other_body = registry.post_as("key", &format!("{path}/"), json!({ "nonsense": true })).await;
            assert_eq!((other_body.status, other_body.text()), (first.status, first.text()), "{path}");
        }
    }
}

#[tokio::test]
async fn a_repetition_changes_nothing() {
    let registry = registry().await;
    let body = json!({ "eventType": "a", "payload": {} });
    for _ in 0..3 {
        registry.post_as("k", "/app/shop/msg", body.clone()).await.json(202);
    }
    assert_eq!(registry.deliver(200, b"").await, 1);
    registry.post_as("other", "/app/shop/msg", body.clone()).await.json(202);
    registry.post("/app/shop/msg", body).await.json(202);
    assert_eq!(registry.deliver(200, b"").await, 2);
}

#[tokio::test]
async fn the_payload_of_a_repeated_answer_is_that_of_the_message() {
    let registry = registry().await;
    let text = r#"{"eventType":"a","payload":{ "n": 1.50 }}"#;
    let headers = [("content-type", "application/json"), ("idempotency-key", "k")];
    let publish = async || registry.send(http::Method::POST, "/api/v1/app/shop/msg", &headers, text).await;
    let first = publish().await;
    assert!(first.text().contains("{ \"n\": 1.50 }"));
    assert_eq!(publish().await.text(), first.text());
    let without = registry
        .post_as("k", "/app/shop/msg?with_content=false", json!({ "eventType": "a", "payload": {} }))
        .await;
    assert!(!without.is_replayed(), "another URL is another request");
}

#[tokio::test]
async fn errors_are_not_kept() {
    let registry = registry().await;
    registry.post_as("k", "/app", json!({})).await.invalid(&["body", "name"]);
    registry.post_as("k", "/app", json!({ "name": "shop", "uid": "shop" })).await.error(409, "conflict");
    let created = registry.post_as("k", "/app", json!({ "name": "n" })).await;
    assert!(!created.is_replayed());
    created.json(201);
    assert!(registry.post_as("k", "/app", json!({})).await.is_replayed());
}

#[tokio::test]
async fn a_key_belongs_to_one_caller_and_one_url() {
    let registry = registry().await;
    let body = json!({ "eventType": "a", "payload": {} });
    let id = |reply: Value| reply["id"].as_str().unwrap().to_owned();
    let first = id(registry.post_as("k", "/app/shop/msg", body.clone()).await.json(202));
    let of_other =
        id(registry.with_bearer(APP_KEY).post_as("k", "/app/shop/msg", body.clone()).await.json(202));
    let by_id = id(registry.post_as("k", "/app/app_0000000000000001/msg", body).await.json(202));
    assert!(first != of_other && first != by_id);
}

#[tokio::test]
async fn an_answer_is_kept_for_a_day() {
    let registry = registry().await;
    let body = json!({ "eventType": "a", "payload": {} });
    registry.post_as("k", "/app/shop/msg", body.clone()).await.json(202);
    registry.clock.advance(Duration::from_secs(24 * 3_600 - 1));
    assert!(registry.post_as("k", "/app/shop/msg", body.clone()).await.is_replayed());
    registry.clock.advance(Duration::from_secs(2));
    assert!(!registry.post_as("k", "/app/shop/msg", body).await.is_replayed());
}

#[tokio::test]
async fn invalid_keys_are_refused_and_other_bodies_are_counted() {
    let registry = registry().await;
    for key in ["", "a\tb", &"k".repeat(256)] {
        registry.post_as(key, "/app", json!({ "name": "n" })).await.invalid(&["header", "idempotency-key"]);
    }
    registry.post_as("k", "/app", json!({ "name": "n" })).await.json(201);
    registry.post_as("k", "/app", json!({ "name": "n" })).await.json(201);
    registry.post_as("k", "/app", json!({ "name": "m" })).await.json(201);
    let metrics = registry.send(http::Method::GET, "/metrics", &[], axum::body::Body::empty()).await;
    let line =
        metrics.text().lines().find(|line| line.starts_with("webhook_api_idempotency_mismatches_total"));
    assert_eq!(line, Some("webhook_api_idempotency_mismatches_total 1"));
}
