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

#[tokio::test]
async fn events_are_listed_by_endpoint() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    let endpoint = registry.endpoint("r").await;
    registry.endpoint("s").await;
    let message = registry.message("paid").await;
    let listed = operator_get(&registry, &format!("/events?endpoint_id={endpoint}")).await;
    let events = listed["events"].as_array().unwrap();
    assert_eq!(events.len(), 1, "{listed}");
    assert!(events[0]["event_id"].as_str().unwrap().starts_with(&message), "{listed}");
    assert_eq!(events[0]["webhook_id"], json!(endpoint));
    let path = "/v1/webhook-outbox/events?endpoint_id=17";
    let refused = registry.send(Method::GET, path, &[], Body::empty()).await.json(400);
    assert_eq!(refused["error"]["details"], json!({ "parameter": "endpoint_id" }));
}

#[tokio::test]
async fn an_operator_lists_operations_and_stops_one() {
    let registry = TestRegistry::new();
    let app = registry.app("shop").await;
    let endpoint = registry.endpoint("r").await;
    let period = json!({ "since": "2023-11-14T00:00:00Z" });
    let mut started = Vec::new();
    for kind in ["recover", "replay-missing"] {
        let answer = registry.post(&format!("/app/shop/endpoint/r/{kind}"), period.clone()).await.json(202);
        started.push(answer["id"].as_str().unwrap().to_owned());
    }
    let first = operator_get(&registry, "/operations?limit=1").await;
    let shown = &first["operations"][0];
    assert_eq!((&shown["operation_id"], &shown["kind"]), (&json!(started[1]), &json!("replay_missing")));
    assert_eq!((&shown["app_id"], &shown["endpoint_id"]), (&json!(app), &json!(endpoint)));
    assert_eq!((&shown["state"], &shown["done_count"]), (&json!("running"), &json!(0)));
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = operator_get(&registry, &format!("/operations?limit=1&cursor={cursor}")).await;
    assert_eq!(
        (&second["operations"][0]["operation_id"], &second["next_cursor"]),
        (&json!(started[0]), &Value::Null)
    );

    let stop = format!("/v1/webhook-outbox/operations/{}/stop", started[0]);
    let stopped = registry.send(Method::POST, &stop, &[], Body::empty()).await.json(200);
    assert_eq!((&stopped["operation_id"], &stopped["state"]), (&json!(started[0]), &json!("stopped")));
    let again = registry.send(Method::POST, &stop, &[], Body::empty()).await.json(200);
    assert_eq!(again["state"], "stopped");
    let running = operator_get(&registry, "/operations?state=running").await;
    assert_eq!(running["operations"].as_array().unwrap().len(), 1);
    for unknown in ["qtask_0000000000000999", "17"] {
        let path = format!("/v1/webhook-outbox/operations/{unknown}/stop");
        let missing = registry.send(Method::POST, &path, &[], Body::empty()).await.json(404);
        assert_eq!(missing["error"]["code"], "operation_not_found");
    }
    for query in ["?state=done", "?cursor=x", "?limit=201"] {
        let path = format!("/v1/webhook-outbox/operations{query}");
        registry.send(Method::GET, &path, &[], Body::empty()).await.json(400);
    }
}

async fn operator_get(registry: &TestRegistry, path: &str) -> Value {
    registry.send(Method::GET, &format!("/v1/webhook-outbox{path}"), &[], Body::empty()).await.json(200)
}
