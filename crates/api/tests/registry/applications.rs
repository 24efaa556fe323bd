//! Applications over HTTP.

use serde_json::{Value, json};

use crate::fixture::TestRegistry;

#[tokio::test]
async fn an_application_is_created_read_changed_replaced_and_deleted() {
    let registry = TestRegistry::new();
    let body = json!({ "name": "Shop", "uid": "shop", "throttleRate": 7, "metadata": { "plan": "gold" }, "unknown": 1 });
    let created = registry.post("/app", body).await.json(201);
    let expected = json!({
        "id": "app_0000000000000001", "uid": "shop", "name": "Shop", "throttleRate": 7, "rateLimit": 7,
        "metadata": { "plan": "gold" },
        "createdAt": "2023-11-14T22:13:20.000000Z", "updatedAt": "2023-11-14T22:13:20.000000Z",
    });
    assert_eq!(created, expected);
    for reference in ["shop", "app_0000000000000001", "shop/"] {
        assert_eq!(registry.get(&format!("/app/{reference}")).await.json(200), expected, "{reference}");
    }
    let patched =
        registry.patch("/app/shop", json!({ "throttleRate": null, "uid": null, "metadata": null })).await;
    let patched = patched.json(200);
    assert_eq!(
        (&patched["throttleRate"], &patched["uid"], &patched["metadata"]),
        (&Value::Null, &Value::Null, &json!({}))
    );
    assert_eq!(patched["name"], "Shop", "a field that is left out stays");
    registry.get("/app/shop").await.error(404, "not_found");
    let replaced =
        registry.put("/app/app_0000000000000001", json!({ "name": "Store", "uid": "store" })).await;
    assert_eq!(replaced.json(200)["uid"], "store");
    registry.delete("/app/store").await.empty(204);
    registry.get("/app/app_0000000000000001").await.error(404, "not_found");
    assert_eq!(registry.app("store").await, "app_0000000000000002", "deletion frees the uid");
}

#[tokio::test]
async fn put_creates_what_the_path_names_and_the_uid_of_the_body_counts() {
    let registry = TestRegistry::new();
    let created = registry.put("/app/shop", json!({ "name": "Shop" })).await.json(201);
    assert_eq!(created["uid"], "shop");
    let created = registry.put("/app/other", json!({ "name": "Other", "uid": "mine" })).await.json(201);
    assert_eq!(created["uid"], "mine");
    registry.put("/app/app_00000000000000ff", json!({ "name": "No" })).await.error(404, "not_found");
    registry.put("/app/shop", json!({ "name": "Shop", "uid": "mine" })).await.error(409, "conflict");
}

#[tokio::test]
async fn a_taken_uid_is_a_conflict_unless_the_existing_application_is_asked_for() {
    let registry = TestRegistry::new();
    let id = registry.app("shop").await;
    let body = json!({ "name": "Again", "uid": "shop" });
    registry.post("/app", body.clone()).await.error(409, "conflict");
    registry.post("/app?get_if_exists=false", body.clone()).await.error(409, "conflict");
    let existing = registry.post("/app?get_if_exists=true", body).await.json(200);
    assert_eq!((&existing["id"], &existing["name"]), (&json!(id), &json!("shop")));
    registry.post("/app?get_if_exists=maybe", json!({ "name": "x" })).await.error(400, "generic_error");
}

#[tokio::test]
async fn applications_are_paged_in_both_directions() {
    let registry = TestRegistry::new();
    for number in 1..=5 {
        registry.app(&format!("a{number}")).await;
    }
    let uids = |page: &Value| -> Vec<String> {
        page["data"].as_array().unwrap().iter().map(|app| app["uid"].as_str().unwrap().to_owned()).collect()
    };
    let first = registry.get("/app?limit=2").await.json(200);
    assert_eq!((uids(&first), &first["done"]), (vec!["a1".to_owned(), "a2".to_owned()], &json!(false)));
    assert_eq!(first["iterator"], first["data"][1]["id"]);
    assert_eq!(first["prevIterator"], format!("-{}", first["data"][0]["id"].as_str().unwrap()));
    let page = |iterator: &Value| format!("/app?limit=2&iterator={}", iterator.as_str().unwrap());
    let second = registry.get(&page(&first["iterator"])).await.json(200);
    assert_eq!(uids(&second), ["a3", "a4"]);
    let third = registry.get(&page(&second["iterator"])).await.json(200);
    assert_eq!((uids(&third), &third["done"]), (vec!["a5".to_owned()], &json!(true)));
    let back = registry.get(&page(&third["prevIterator"])).await.json(200);
    assert_eq!((uids(&back), &back["done"]), (uids(&second), &json!(false)));
    let back = registry.get(&page(&back["prevIterator"])).await.json(200);
    assert_eq!((uids(&back), &back["done"]), (uids(&first), &json!(true)));
    let empty = registry.get(&page(&third["iterator"])).await.json(200);
    assert_eq!(empty, json!({ "data": [], "iterator": null, "prevIterator": null, "done": true }));
}

#[tokio::test]
async fn a_page_has_50_items_by_default_and_250_at_most() {
    let registry = TestRegistry::new();
    for number in 1..=51 {
        registry.app(&format!("a{number}")).await;
    }
    let page = registry.get("/app").await.json(200);
    assert_eq!((page["data"].as_array().unwrap().len(), &page["done"]), (50, &json!(false)));
    let page = registry.get("/app?limit=250").await.json(200);
    assert_eq!((page["data"].as_array().unwrap().len(), &page["done"]), (51, &json!(true)));
    for limit in ["0", "251", "-1"] {
        registry.get(&format!("/app?limit={limit}")).await.invalid(&["query", "limit"]);
    }
    registry.get("/app?limit=many").await.error(400, "generic_error");
    for iterator in ["x", "-", "ep_0000000000000001", "--app_0000000000000001"] {
        registry.get(&format!("/app?iterator={iterator}")).await.invalid(&["query", "iterator"]);
    }
}

#[tokio::test]
async fn both_names_of_the_throttle_must_be_valid() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    let body = json!({ "name": "Shop", "throttleRate": 1, "rateLimit": 0 });
    registry.post("/app", body.clone()).await.json(422);
    registry.put("/app/shop", body.clone()).await.json(422);
    registry.patch("/app/shop", body).await.json(422);
    let body = json!({ "url": "https://receiver.example/", "throttleRate": 1, "rateLimit": 0 });
    registry.post("/app/shop/endpoint", body).await.json(422);
    let body = json!({ "url": "https://receiver.example/", "eventTypes": null, "filterTypes": ["a b"] });
    registry.post("/app/shop/endpoint", body).await.json(422);
}
