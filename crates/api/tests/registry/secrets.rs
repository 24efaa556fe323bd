//! Secrets of endpoints over HTTP.

use std::time::Duration;

use posthaste_domain::signature::{Ed25519PublicKey, EndpointSecret};
use serde_json::{Value, json};

use crate::fixture::{APP_KEY, TestRegistry, VIEWER};

const GIVEN: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";

async fn registry() -> TestRegistry {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry
}

async fn create(registry: &TestRegistry, secret: Value) {
    let mut body = json!({ "url": "https://r.example/", "uid": "r" });
    body.as_object_mut().unwrap().append(&mut secret.as_object().unwrap().clone());
    let created = registry.post("/app/shop/endpoint", body).await;
    let text = created.text().to_owned();
    created.json(201);
    assert!(!text.contains("whs"), "an endpoint shows no secret: {text}");
}

async fn key(registry: &TestRegistry) -> String {
    registry.get("/app/shop/endpoint/r/secret").await.json(200)["key"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_secret_is_made_or_given_and_shown_to_its_owner() {
    for secret in [json!({ "secret": GIVEN }), json!({ "secret": &GIVEN["whsec_".len()..] })] {
        let registry = registry().await;
        create(&registry, secret).await;
        assert_eq!(key(&registry).await, GIVEN);
        assert_eq!(key(&registry.with_bearer(APP_KEY)).await, GIVEN);
        let viewer = registry.with_bearer(VIEWER);
        viewer.get("/app/shop/endpoint/r/secret").await.error(403, "permission_denied");
    }
    let registry = registry().await;
    create(&registry, json!({})).await;
    assert!(EndpointSecret::parse(&key(&registry).await).is_ok());
}

#[tokio::test]
async fn an_ed25519_key_shows_its_public_half_only() {
    let registry = registry().await;
    create(&registry, json!({ "secretType": "ed25519" })).await;
    let public = key(&registry).await;
    assert!(Ed25519PublicKey::parse(&public).is_ok(), "{public}");
    let rotated = registry.post("/app/shop/endpoint/r/secret/rotate", json!({})).await.json(200);
    let rotated = rotated["key"].as_str().unwrap();
    assert!(Ed25519PublicKey::parse(rotated).is_ok(), "a rotation keeps the kind: {rotated}");
    assert_ne!(rotated, public);
    let hmac =
        registry.post("/app/shop/endpoint/r/secret/rotate", json!({ "secretType": "hmac" })).await.json(200);
    assert!(hmac["key"].as_str().unwrap().starts_with("whsec_"));
}

#[tokio::test]
async fn a_rotation_keeps_the_old_secret_for_its_grace_period() {
    let registry = registry().await;
    create(&registry, json!({})).await;
    let first = key(&registry).await;
    let body = json!({ "key": GIVEN, "gracePeriodSeconds": 60 });
    let rotated = registry.post("/app/shop/endpoint/r/secret/rotate", body).await.json(200);
    assert_eq!(rotated, json!({ "key": GIVEN }));
    assert_eq!(key(&registry).await, GIVEN);
    assert_ne!(first, GIVEN);
    let endpoint = registry.get("/app/shop/endpoint/r").await.json(200);
    let id = posthaste_domain::EndpointId::parse(endpoint["id"].as_str().unwrap()).unwrap();
    let valid = async || registry.store.endpoints().keys(id.0).await.unwrap().len();
    assert_eq!(valid().await, 2);
    registry.clock.advance(Duration::from_secs(61));
    assert_eq!(valid().await, 1);
}

#[tokio::test]
async fn a_rotation_without_a_body_makes_a_secret() {
    let registry = registry().await;
    create(&registry, json!({})).await;
    let path = "/api/v1/app/shop/endpoint/r/secret/rotate";
    let rotated = registry.send(http::Method::POST, path, &[], axum::body::Body::empty()).await.json(200);
    assert_eq!(rotated["key"], key(&registry).await);
}

#[tokio::test]
async fn sdks_of_version_1_get_no_content_for_a_rotation() {
    let registry = registry().await;
    create(&registry, json!({})).await;
    let path = "/api/v1/app/shop/endpoint/r/secret/rotate";
    let before = key(&registry).await;
    let send = async |headers: &[(&str, &str)]| {
        registry.send(http::Method::POST, path, headers, axum::body::Body::empty()).await
    };
    let headers = [("user-agent", "svix-libs/1.45.1/python"), ("idempotency-key", "once")];
    send(&headers).await.empty(204);
    let rotated = key(&registry).await;
    assert_ne!(rotated, before);
    send(&headers).await.empty(204);
    assert_eq!(key(&registry).await, rotated, "the repeated request rotates nothing");
    let answer = send(&[("user-agent", "svix-libs/2.9.1/python")]).await.json(200);
    assert_eq!(answer["key"], key(&registry).await);
}

#[tokio::test]
async fn refused_rotations_name_the_field_and_no_secret() {
    let registry = registry().await;
    create(&registry, json!({})).await;
    let rotate = async |body: Value| registry.post("/app/shop/endpoint/r/secret/rotate", body).await;
    let refused = rotate(json!({ "key": "whsec_hunter2" })).await;
    assert!(!refused.text().contains("hunter2"), "{}", refused.text());
    refused.invalid(&["body", "key"]);
    rotate(json!({ "gracePeriodSeconds": 604_801 })).await.invalid(&["body", "gracePeriodSeconds"]);
    rotate(json!({ "gracePeriodSeconds": -1 })).await.invalid(&["body", "gracePeriodSeconds"]);
    for _ in 0..10 {
        rotate(json!({})).await.json(200);
    }
    rotate(json!({})).await.error(400, "limit_reached");
}

#[tokio::test]
async fn secrets_are_sealed_in_the_store() {
    let registry = registry().await;
    create(&registry, json!({ "secret": GIVEN, "headers": { "Authorization": "Basic hunter2" } })).await;
    registry.post_as("k", "/app/shop/endpoint/r/secret/rotate", json!({ "key": GIVEN })).await.json(200);
    let values = registry.store.endpoints().sealed_values(None, 10).await.unwrap();
    assert_eq!(values.len(), 3);
    for value in values {
        assert_eq!(value.key_id(), Some("k1"));
        assert!(!String::from_utf8_lossy(&value.bytes).contains("hunter2"));
        assert!(!String::from_utf8_lossy(&value.bytes).contains("MfKQ"));
    }
}
