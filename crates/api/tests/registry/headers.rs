//! Custom headers of endpoints over HTTP.

use serde_json::json;

use crate::fixture::TestRegistry;

const HEADERS: &str = "/app/shop/endpoint/r/headers";

async fn registry() -> TestRegistry {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry.endpoint("r").await;
    registry
}

#[tokio::test]
async fn headers_are_replaced_merged_and_removed() {
    let registry = registry().await;
    assert_eq!(registry.get(HEADERS).await.json(200), json!({ "headers": {}, "sensitive": [] }));
    registry.put(HEADERS, json!({ "headers": { "X-Region": "eu", "X-Old": "1" } })).await.empty(204);
    registry
        .patch(HEADERS, json!({ "headers": { "x-region": "us", "X-Old": null, "X-New": "2" } }))
        .await
        .empty(204);
    let shown = registry.get(HEADERS).await.json(200);
    assert_eq!(shown, json!({ "headers": { "x-region": "us", "X-New": "2" }, "sensitive": [] }));
    registry.patch(HEADERS, json!({ "headers": {}, "deleteHeaders": ["X-NEW"] })).await.empty(204);
    assert_eq!(registry.get(HEADERS).await.json(200)["headers"], json!({ "x-region": "us" }));
    registry.put(HEADERS, json!({ "headers": {} })).await.empty(204);
    assert_eq!(registry.get(HEADERS).await.json(200)["headers"], json!({}));
}

#[tokio::test]
async fn values_that_may_be_credentials_are_not_shown() {
    let registry = registry().await;
    let headers = json!({ "Authorization": "Basic hunter2", "X-Api-Key": "hunter2", "X-Region": "eu" });
    registry.put(HEADERS, json!({ "headers": headers })).await.empty(204);
    let shown = registry.get(HEADERS).await;
    assert!(!shown.text().contains("hunter2"));
    let shown = shown.json(200);
    assert_eq!(
        shown,
        json!({ "headers": { "X-Region": "eu" }, "sensitive": ["Authorization", "X-Api-Key"] })
    );
}

#[tokio::test]
async fn reserved_and_invalid_headers_are_refused_with_their_name() {
    let registry = registry().await;
    let long = "v".repeat(4_097);
    for (name, value) in [
        ("Host", "x"),
        ("webhook-id", "x"),
        ("Svix-Id", "x"),
        ("content-type", "x"),
        ("X Y", "x"),
        ("X-Line", "a\r\nb"),
        ("X-Long", long.as_str()),
    ] {
        let body = json!({ "headers": { name: value } });
        registry.put(HEADERS, body.clone()).await.invalid(&["body", "headers", name]);
        registry.patch(HEADERS, body).await.invalid(&["body", "headers", name]);
    }
    let endpoint = json!({ "url": "https://r.example", "headers": { "Host": "x" } });
    registry.post("/app/shop/endpoint", endpoint).await.invalid(&["body", "headers", "Host"]);
    registry.put(HEADERS, json!({ "headers": { "X-A": 1 } })).await.invalid(&["body", "headers", "X-A"]);
    registry.put(HEADERS, json!({})).await.invalid(&["body", "headers"]);
}
