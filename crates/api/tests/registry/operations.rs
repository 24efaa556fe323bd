//! Background operations over HTTP.

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
async fn a_recovery_runs_in_the_background_and_shows_its_progress() {
    let registry = registry().await;
    registry.message("a").await;
    assert_eq!(registry.deliver(410, b"").await, 1);
    registry.patch("/app/shop/endpoint/r", json!({ "disabled": false })).await.json(200);
    registry.clock.advance(Duration::from_secs(60));
    let registry = registry.restarted();
    let started = registry
        .post("/app/shop/endpoint/r/recover", json!({ "since": "2023-11-14T22:00:00Z" }))
        .await
        .json(202);
    assert_eq!((&started["status"], &started["task"]), (&json!("running"), &json!("endpoint.recover")));
    assert!(started["updatedAt"].is_string() && started.get("data").is_none());
    let path = format!("/background-task/{}", started["id"].as_str().unwrap());
    let running = registry.get(&path).await.json(200);
    assert_eq!((&running["status"], &running["data"]["state"]), (&json!("running"), &json!("running")));
    while registry.store.operations().advance(500).await.unwrap().next_in.is_some() {
        registry.clock.advance(Duration::from_secs(1));
    }
    let finished = registry.get(&path).await.json(200);
    assert_eq!((&finished["status"], &finished["data"]["sent"]), (&json!("finished"), &json!(1)));
    assert_eq!(finished["data"]["ratePerSecond"], 100);
    assert_eq!(registry.with_bearer(APP_KEY).get(&path).await.json(200), finished);
    assert_eq!(registry.deliver(200, b"").await, 1);
}

#[tokio::test]
async fn missing_messages_are_replayed_to_a_new_endpoint() {
    let registry = registry().await;
    registry.message("a").await;
    registry.deliver(200, b"").await;
    registry.endpoint("late").await;
    registry.clock.advance(Duration::from_secs(60));
    let body = json!({ "since": "2023-11-14T22:13:00Z", "until": "2023-11-14T22:14:00Z" });
    let started = registry.post("/app/shop/endpoint/late/replay-missing", body).await.json(202);
    assert_eq!(started["task"], "endpoint.replay");
    while registry.store.operations().advance(500).await.unwrap().next_in.is_some() {
        registry.clock.advance(Duration::from_secs(1));
    }
    assert_eq!(registry.deliver(200, b"").await, 1);
}

#[tokio::test]
async fn refused_periods_and_unknown_operations_have_their_errors() {
    let registry = registry().await;
    let start = async |body: Value| registry.post("/app/shop/endpoint/r/recover", body).await;
    start(json!({})).await.invalid(&["body", "since"]);
    start(json!({ "since": "yesterday" })).await.invalid(&["body", "since"]);
    start(json!({ "since": "2023-11-14T00:00:00Z", "until": "later" })).await.invalid(&["body", "until"]);
    start(json!({ "since": "2023-10-14T00:00:00Z" })).await.invalid(&["body", "since"]);
    start(json!({ "since": "2023-11-14T00:00:00Z", "until": "2023-11-13T00:00:00Z" }))
        .await
        .invalid(&["body", "since"]);
    start(json!({ "since": "2023-10-14T00:00:00Z", "until": "2023-10-20T00:00:00Z" })).await.json(202);
    for id in ["qtask_00000000000000ff", "qtask_7fffffffffffffff", "x"] {
        registry.get(&format!("/background-task/{id}")).await.error(404, "not_found");
    }
    registry.patch("/app/shop/endpoint/r", json!({ "disabled": true })).await.json(200);
    start(json!({ "since": "2023-11-14T00:00:00Z" })).await.error(400, "endpoint_disabled");
}
