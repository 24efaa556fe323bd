//! Operators see endpoints among the destinations of `/v1`.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use crate::fixture::TestRegistry;

#[tokio::test]
async fn a_destination_shows_its_endpoint_and_why_it_is_disabled() {
    let registry = TestRegistry::new();
    let app = registry.app("shop").await;
    let endpoint = registry.endpoint("r").await;
    let destinations = async |query: &str| -> Value {
        let path = format!("/v1/webhook-outbox/destinations{query}");
        registry.send(Method::GET, &path, &[], Body::empty()).await.json(200)["destinations"].clone()
    };
    let listed = destinations("").await;
    assert_eq!((&listed[0]["endpoint_id"], &listed[0]["app_id"]), (&json!(endpoint), &json!(app)));
    assert_eq!((&listed[0]["state"], &listed[0]["disabled"]), (&json!("ok"), &Value::Null));
    registry.patch("/app/shop/endpoint/r", json!({ "disabled": true })).await.json(200);
    let disabled = destinations("?state=disabled").await;
    assert_eq!(disabled[0]["endpoint_id"], json!(endpoint));
    assert_eq!(disabled[0]["disabled"], json!({ "at": "2023-11-14T22:13:20.000000Z", "reason": "manual" }));
    assert_eq!(disabled[0]["state"], "disabled");
    let id = disabled[0]["destination_id"].as_str().unwrap();
    let shown = registry
        .send(Method::GET, &format!("/v1/webhook-outbox/destinations/{id}"), &[], Body::empty())
        .await;
    assert_eq!(shown.json(200)["audit"][0]["action"], "disable");
}
