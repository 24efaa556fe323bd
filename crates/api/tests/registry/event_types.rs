//! Event types over HTTP.

use serde_json::{Value, json};

use crate::fixture::{APP_KEY, TestRegistry};

#[tokio::test]
async fn an_event_type_is_registered_archived_and_revived() {
    let registry = TestRegistry::new();
    let body = json!({ "name": "a.b", "description": "d", "schemas": { "1": { "type": "object" } }, "groupName": "g", "featureFlags": ["f"] });
    let created = registry.post("/event-type", body).await.json(201);
    let expected = json!({
        "name": "a.b", "description": "d", "archived": false, "deprecated": false, "schemas": { "1": { "type": "object" } },
        "groupName": "g", "featureFlags": ["f"], "featureFlag": "f",
        "createdAt": "2023-11-14T22:13:20.000000Z", "updatedAt": "2023-11-14T22:13:20.000000Z",
    });
    assert_eq!(created, expected);
    assert_eq!(registry.get("/event-type/a.b").await.json(200), expected);
    let again = json!({ "name": "a.b", "description": "again" });
    registry.post("/event-type", again.clone()).await.error(409, "event_type_exists");
    registry.delete("/event-type/a.b").await.empty(204);
    assert_eq!(registry.get("/event-type").await.json(200)["data"], json!([]));
    let archived = registry.get("/event-type?include_archived=true").await.json(200);
    assert_eq!(
        (&archived["data"][0]["archived"], &archived["data"][0]["schemas"]),
        (&json!(true), &Value::Null)
    );
    let revived = registry.post("/event-type", again).await.json(201);
    assert_eq!((&revived["archived"], &revived["description"]), (&json!(false), &json!("again")));
    registry.delete("/event-type/a.b?expunge=true").await.empty(204);
    registry.get("/event-type/a.b").await.error(404, "not_found");
    registry.delete("/event-type/a.b").await.error(404, "not_found");
}

#[tokio::test]
async fn put_registers_or_replaces_and_patch_changes() {
    let registry = TestRegistry::new();
    assert_eq!(
        registry.put("/event-type/a", json!({ "description": "1" })).await.json(201)["description"],
        "1"
    );
    let body = json!({ "description": "2", "deprecated": true });
    assert_eq!(registry.put("/event-type/a", body).await.json(200)["deprecated"], true);
    let patched =
        registry.patch("/event-type/a", json!({ "schemas": { "1": {} }, "groupName": "g" })).await.json(200);
    assert_eq!((&patched["description"], &patched["schemas"]), (&json!("2"), &json!({ "1": {} })));
    let patched = registry
        .patch("/event-type/a", json!({ "schemas": null, "groupName": null, "archived": true }))
        .await;
    let patched = patched.json(200);
    assert_eq!(
        (&patched["schemas"], &patched["groupName"], &patched["archived"]),
        (&Value::Null, &Value::Null, &json!(true))
    );
    let body = json!({ "description": "3", "archived": true });
    assert_eq!(registry.put("/event-type/b", body).await.json(201)["archived"], true);
    registry.patch("/event-type/missing", json!({})).await.error(404, "not_found");
}

#[tokio::test]
async fn event_types_are_paged_by_name_also_with_hyphens() {
    let registry = TestRegistry::new();
    for name in ["-a", "b", "c"] {
        registry
            .post("/event-type", json!({ "name": name, "description": "", "schemas": {} }))
            .await
            .json(201);
    }
    let mut path = "/event-type?limit=1&with_content=true".to_owned();
    for name in ["-a", "b", "c"] {
        let page = registry.get(&path).await.json(200);
        assert_eq!((&page["data"][0]["name"], &page["data"][0]["schemas"]), (&json!(name), &json!({})));
        path =
            format!("/event-type?limit=1&with_content=true&iterator={}", page["iterator"].as_str().unwrap());
    }
    let page = registry.get("/event-type?iterator=-name:b").await.json(200);
    assert_eq!(page["data"][0]["name"], "-a");
    registry.get("/event-type?iterator=b").await.invalid(&["query", "iterator"]);
}

#[tokio::test]
async fn refused_fields_are_named_and_applications_may_only_read() {
    let registry = TestRegistry::new();
    for (body, field) in [
        (json!({ "name": "a b", "description": "" }), "name"),
        (json!({ "name": "a" }), "description"),
        (json!({ "name": "a", "description": "d".repeat(1_025) }), "description"),
        (json!({ "name": "a", "description": "", "schemas": [] }), "schemas"),
        (json!({ "name": "a", "description": "", "groupName": "" }), "groupName"),
        (json!({ "name": "a", "description": "", "featureFlags": [""] }), "featureFlags"),
        (json!({ "name": "a", "description": "", "schemas": { "1": "s".repeat(65_536) } }), "schemas"),
    ] {
        registry.post("/event-type", body).await.invalid(&["body", field]);
    }
    registry.app("shop").await;
    let shop = registry.with_bearer(APP_KEY);
    shop.get("/event-type").await.json(200);
    shop.post("/event-type", json!({ "name": "a", "description": "" })).await.error(403, "permission_denied");
}
