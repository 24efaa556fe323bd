//! Endpoints over HTTP.

use serde_json::{Value, json};

use crate::fixture::TestRegistry;

async fn registry_with_app() -> TestRegistry {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry
}

#[tokio::test]
async fn an_endpoint_has_every_key_that_old_and_new_sdks_need() {
    let registry = registry_with_app().await;
    registry.post("/event-type", json!({ "name": "a.b", "description": "" })).await.json(201);
    let body = json!({
        "url": "https://r.example/hook", "uid": "r", "description": "d", "filterTypes": ["a.b"], "channels": ["c:1"],
        "rateLimit": 3, "metadata": { "k": "v" }, "ordering": "fifo", "version": 1,
    });
    let created = registry.post("/app/shop/endpoint/", body).await.json(201);
    let expected = json!({
        "id": created["id"], "uid": "r", "url": "https://r.example/hook", "description": "d", "disabled": false,
        "disabledReason": null, "disabledAt": null, "eventTypes": ["a.b"], "filterTypes": ["a.b"], "channels": ["c:1"],
        "throttleRate": 3, "rateLimit": 3, "ordering": "fifo", "metadata": { "k": "v" }, "version": 1,
        "createdAt": "2023-11-14T22:13:20.000000Z", "updatedAt": "2023-11-14T22:13:20.000000Z",
    });
    assert_eq!(created, expected);
    assert_eq!(registry.get("/app/shop/endpoint/r").await.json(200), expected);
    let listed = registry.get("/app/shop/endpoint").await.json(200);
    assert_eq!(listed["data"], json!([expected]));
    let minimal = registry.post("/app/shop/endpoint", json!({ "url": "https://m.example/" })).await.json(201);
    for field in ["uid", "eventTypes", "filterTypes", "channels", "throttleRate", "rateLimit"] {
        assert_eq!(minimal.get(field), Some(&Value::Null), "{field}");
    }
    assert_eq!((&minimal["description"], &minimal["ordering"]), (&json!(""), &json!("any")));
}

#[tokio::test]
async fn endpoints_are_listed_newest_first() {
    let registry = registry_with_app().await;
    let (first, second) = (registry.endpoint("a").await, registry.endpoint("b").await);
    let listed = registry.get("/app/shop/endpoint?limit=1").await.json(200);
    assert_eq!((&listed["data"][0]["id"], &listed["iterator"]), (&json!(second), &json!(second)));
    let rest = registry.get(&format!("/app/shop/endpoint?iterator={second}")).await.json(200);
    assert_eq!((&rest["data"][0]["id"], &rest["done"]), (&json!(first), &json!(true)));
}

#[tokio::test]
async fn null_clears_and_a_field_that_is_left_out_stays() {
    let registry = registry_with_app().await;
    let body = json!({ "url": "https://r.example/", "uid": "r", "description": "d", "channels": ["c"], "throttleRate": 3 });
    let id = registry.post("/app/shop/endpoint", body).await.json(201)["id"].clone();
    let path = format!("/app/shop/endpoint/{}", id.as_str().unwrap());
    let patch = json!({ "channels": null, "throttleRate": null, "description": null, "uid": null });
    let patched = registry.patch(&path, patch).await.json(200);
    assert_eq!(patched["url"], "https://r.example/");
    assert_eq!((&patched["channels"], &patched["throttleRate"]), (&Value::Null, &Value::Null));
    assert_eq!((&patched["description"], &patched["uid"]), (&json!(""), &Value::Null));
    let disabled = registry.patch(&path, json!({ "disabled": true })).await.json(200);
    assert_eq!((&disabled["disabled"], &disabled["disabledReason"]), (&json!(true), &json!("manual")));
    assert!(disabled["disabledAt"].is_string());
    let enabled = registry.patch(&path, json!({ "disabled": false })).await.json(200);
    assert_eq!((&enabled["disabled"], &enabled["disabledReason"]), (&json!(false), &Value::Null));
    let moved = registry.patch(&path, json!({ "url": "https://s.example/x" })).await.json(200);
    assert_eq!(moved["url"], "https://s.example/x");
}

#[tokio::test]
async fn put_creates_or_replaces_and_never_touches_the_secret() {
    let registry = registry_with_app().await;
    let body = json!({ "url": "https://r.example/", "description": "d" });
    let created = registry.put("/app/shop/endpoint/r", body).await.json(201);
    assert_eq!(created["uid"], "r");
    let secret = registry.get("/app/shop/endpoint/r/secret").await.json(200);
    let body =
        json!({ "url": "https://s.example/", "secret": format!("whsec_{}", "B".repeat(32)), "uid": "r" });
    let replaced = registry.put("/app/shop/endpoint/r", body).await.json(200);
    assert_eq!((&replaced["id"], &replaced["description"]), (&created["id"], &json!("")));
    assert_eq!(registry.get("/app/shop/endpoint/r/secret").await.json(200), secret);
    registry
        .put("/app/shop/endpoint/ep_00000000000000ff", json!({ "url": "https://s.example/" }))
        .await
        .error(404, "not_found");
}

#[tokio::test]
async fn deletion_cancels_pending_messages_and_frees_the_uid() {
    let registry = registry_with_app().await;
    let id = registry.endpoint("r").await;
    let message = registry.message("a").await;
    registry.delete("/app/shop/endpoint/r").await.empty(204);
    registry.get(&format!("/app/shop/endpoint/{id}")).await.error(404, "not_found");
    registry.delete("/app/shop/endpoint/r").await.error(404, "not_found");
    assert_eq!(registry.deliver(200, b"").await, 0);
    assert_eq!(registry.get(&format!("/app/shop/msg/{message}/endpoint")).await.json(200)["data"], json!([]));
    assert_ne!(registry.endpoint("r").await, id);
}

#[tokio::test]
async fn every_refused_field_is_named() {
    let registry = registry_with_app().await;
    registry.endpoint("taken").await;
    let cases = [
        (json!({}), "url"),
        (json!({ "url": 1 }), "url"),
        (json!({ "url": "ftp://r.example" }), "url"),
        (json!({ "url": "https://refused.example/" }), "url"),
        (json!({ "url": "https://r.example", "uid": "ep_1" }), "uid"),
        (json!({ "url": "https://r.example", "description": "d".repeat(1_025) }), "description"),
        (json!({ "url": "https://r.example", "eventTypes": [] }), "eventTypes"),
        (json!({ "url": "https://r.example", "eventTypes": ["not.registered"] }), "eventTypes"),
        (json!({ "url": "https://r.example", "channels": [] }), "channels"),
        (json!({ "url": "https://r.example", "channels": vec!["c"; 11] }), "channels"),
        (json!({ "url": "https://r.example", "throttleRate": 0 }), "throttleRate"),
        (json!({ "url": "https://r.example", "metadata": { "k": "v".repeat(4_096) } }), "metadata"),
        (json!({ "url": "https://r.example", "secret": "whsec_c2hvcnQ=" }), "secret"),
        (json!({ "url": "https://r.example", "ordering": "lifo" }), "ordering"),
    ];
    for (body, field) in cases {
        registry.post("/app/shop/endpoint", body).await.invalid(&["body", field]);
    }
    let nested = json!({ "url": "https://r.example", "eventTypes": ["a", 1] });
    registry.post("/app/shop/endpoint", nested).await.invalid(&["body", "eventTypes", "1"]);
    let taken = json!({ "url": "https://r.example", "uid": "taken" });
    registry.post("/app/shop/endpoint", taken).await.error(409, "conflict");
    for patch in [json!({ "url": "nonsense" }), json!({ "url": "https://refused.example" })] {
        registry.patch("/app/shop/endpoint/taken", patch).await.invalid(&["body", "url"]);
    }
    registry
        .patch("/app/shop/endpoint/taken", json!({ "eventTypes": ["x.y"] }))
        .await
        .invalid(&["body", "eventTypes"]);
}

#[tokio::test]
async fn messages_of_an_endpoint_are_counted_by_state() {
    let registry = registry_with_app().await;
    registry.endpoint("r").await;
    registry.message("a").await;
    assert_eq!(registry.deliver(200, b"").await, 1);
    registry.message("a").await;
    assert_eq!(registry.deliver(503, b"").await, 1);
    registry.message("a").await;
    let stats = registry.get("/app/shop/endpoint/r/stats").await.json(200);
    assert_eq!(stats, json!({ "success": 1, "pending": 1, "sending": 1, "fail": 0, "canceled": 0 }));
    let later = registry.get("/app/shop/endpoint/r/stats?since=2023-11-15T00:00:00Z").await.json(200);
    assert_eq!(later["success"], 0);
    registry.get("/app/shop/endpoint/r/stats?since=yesterday").await.error(400, "generic_error");
}
