//! Access to the portal over HTTP.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{APP_KEY, PRODUCER, TestRegistry};

async fn access(registry: &TestRegistry, body: Value) -> String {
    let access = registry.post("/auth/app-portal-access/shop", body).await.json(200);
    let token = access["token"].as_str().unwrap().to_owned();
    assert_eq!(access["url"], format!("https://hooks.example/portal#token={token}"));
    token
}

#[tokio::test]
async fn a_token_is_bound_to_its_application_and_may_not_publish() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry.app("other").await;
    let user = registry.with_bearer(&access(&registry, json!({})).await);
    assert_eq!(user.get("/app/shop").await.json(200)["uid"], "shop");
    user.endpoint("r").await;
    user.get("/app/shop/endpoint/r/secret").await.json(200);
    user.get("/app/other").await.error(404, "not_found");
    user.get("/app").await.error(403, "permission_denied");
    user.delete("/app/shop").await.error(403, "permission_denied");
    let body = json!({ "eventType": "a", "payload": {} });
    user.post("/app/shop/msg", body.clone()).await.error(403, "permission_denied");
    registry.with_bearer(APP_KEY).post("/app/shop/msg", body).await.json(202);
}

#[tokio::test]
async fn a_token_expires() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    let token = access(&registry, json!({})).await;
    registry.clock.advance(Duration::from_secs(28 * 86_400 - 60));
    registry.restarted().with_bearer(&token).get("/app/shop").await.json(200);
    registry.clock.advance(Duration::from_secs(120));
    registry.restarted().with_bearer(&token).get("/app/shop").await.error(401, "authentication_failed");
    let short = access(&registry.restarted(), json!({ "expiry": 60 })).await;
    registry.clock.advance(Duration::from_secs(61));
    registry.restarted().with_bearer(&short).get("/app/shop").await.error(401, "authentication_failed");
    for expiry in [59, 28 * 86_400 + 1] {
        registry
            .post("/auth/app-portal-access/shop", json!({ "expiry": expiry }))
            .await
            .invalid(&["body", "expiry"]);
    }
}

#[tokio::test]
async fn a_token_may_do_no_more_than_it_was_made_for() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry.endpoint("r").await;
    let reader = registry.with_bearer(&access(&registry, json!({ "readOnly": true })).await);
    let viewer = registry.with_bearer(&access(&registry, json!({ "capabilities": ["ViewBase"] })).await);
    for user in [reader, viewer] {
        user.get("/app/shop/endpoint/r").await.json(200);
        user.get("/app/shop/msg").await.json(200);
        user.get("/app/shop/endpoint/r/secret").await.error(403, "permission_denied");
        user.patch("/app/shop/endpoint/r", json!({})).await.error(403, "permission_denied");
        user.post("/app/shop/endpoint/r/secret/rotate", json!({})).await.error(403, "permission_denied");
        user.post("/app/shop/endpoint/r/send-example", json!({ "eventType": "a" }))
            .await
            .error(403, "permission_denied");
    }
    let body = json!({ "capabilities": ["ViewBase", "ManageEndpointSecret", "CreateAttempts"] });
    let keeper = registry.with_bearer(&access(&registry, body).await);
    keeper.post("/app/shop/endpoint/r/secret/rotate", json!({})).await.json(200);
    keeper.post("/app/shop/endpoint/r/send-example", json!({ "eventType": "a" })).await.json(202);
    keeper.patch("/app/shop/endpoint/r", json!({})).await.error(403, "permission_denied");
    let unknown = json!({ "capabilities": ["Everything"] });
    registry.post("/auth/app-portal-access/shop", unknown).await.invalid(&["body", "capabilities", "0"]);
}

#[tokio::test]
async fn the_application_may_be_created_with_the_token() {
    let registry = TestRegistry::new();
    let path = "/auth/app-portal-access/shop";
    registry.post(path, json!({})).await.error(404, "not_found");
    let mismatch = json!({ "application": { "name": "Shop", "uid": "other" } });
    registry.post(path, mismatch).await.invalid(&["body", "application", "uid"]);
    let token = access(&registry, json!({ "application": { "name": "Shop", "uid": "shop" } })).await;
    assert_eq!(registry.with_bearer(&token).get("/app/shop").await.json(200)["name"], "Shop");
}

#[tokio::test]
async fn only_the_organisation_makes_tokens_and_only_with_a_secret() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    for bearer in [APP_KEY, PRODUCER] {
        registry
            .with_bearer(bearer)
            .post("/auth/app-portal-access/shop", json!({}))
            .await
            .error(403, "permission_denied");
    }
    let local = TestRegistry::local();
    local.app("shop").await;
    let detail = local.post("/auth/app-portal-access/shop", json!({})).await.error(400, "no_token_secret");
    assert!(detail.contains("jwt_secret"), "{detail}");
}
