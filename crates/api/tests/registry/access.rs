//! Who may call the registry: API keys, tokens, and the local user.

use axum::body::Body;
use http::Method;
use serde_json::json;

use crate::fixture::{APP_KEY, OPERATOR, TestRegistry, VIEWER};

#[tokio::test]
async fn a_request_without_a_known_key_or_valid_token_is_refused() {
    let registry = TestRegistry::new();
    let foreign = TestRegistry::token("org_a", None).replace('.', ".A");
    for bearer in ["", "unknown-0123456789", "eyJ.eyJ.x", foreign.as_str()] {
        let refused = registry.with_bearer(bearer).get("/app").await;
        assert!(refused.headers["www-authenticate"].to_str().unwrap().starts_with("Bearer"));
        refused.error(401, "authentication_failed");
    }
}

#[tokio::test]
async fn organisations_do_not_see_each_other() {
    let registry = TestRegistry::new();
    let a = registry.with_bearer(&TestRegistry::token("org_a", None));
    let b = registry.with_bearer(&TestRegistry::token("org_b", None));
    let id = a.app("shop").await;
    a.post("/event-type", json!({ "name": "t", "description": "" })).await.json(201);
    for other in [&b, &registry] {
        assert_eq!(other.get("/app").await.json(200)["data"], json!([]));
        other.get("/app/shop").await.error(404, "not_found");
        other.get(&format!("/app/{id}")).await.error(404, "not_found");
        other.get("/event-type/t").await.error(404, "not_found");
    }
    assert_ne!(b.app("shop").await, id, "uids are unique within an organisation");
}

#[tokio::test]
async fn a_token_for_an_application_names_it_by_id_or_uid() {
    let registry = TestRegistry::new();
    let (shop, other) = (registry.app("shop").await, registry.app("other").await);
    let user = registry.with_bearer(&TestRegistry::token("org_default", Some(&shop)));
    for reference in ["shop", shop.as_str()] {
        assert_eq!(user.get(&format!("/app/{reference}")).await.json(200)["id"], json!(shop));
    }
    for reference in ["other", other.as_str(), "missing"] {
        user.get(&format!("/app/{reference}")).await.error(404, "not_found");
    }
    let elsewhere = registry.with_bearer(&TestRegistry::token("org_a", Some(&shop)));
    elsewhere.get(&format!("/app/{shop}")).await.error(404, "not_found");
    registry.delete("/app/shop").await.empty(204);
    user.get(&format!("/app/{shop}")).await.error(404, "not_found");
}

#[tokio::test]
async fn a_viewer_reads_everything_but_secrets() {
    let registry = TestRegistry::new();
    registry.app("shop").await;
    registry.endpoint("r").await;
    let viewer = registry.with_bearer(VIEWER);
    for path in [
        "/app",
        "/app/shop",
        "/app/shop/endpoint",
        "/app/shop/endpoint/r/headers",
        "/app/shop/msg",
        "/event-type",
    ] {
        viewer.get(path).await.json(200);
    }
    viewer.get("/app/shop/endpoint/r/secret").await.error(403, "permission_denied");
    viewer.post("/app", json!({ "name": "n" })).await.error(403, "permission_denied");
    viewer.delete("/app/shop/endpoint/r").await.error(403, "permission_denied");
    viewer
        .post("/app/shop/msg", json!({ "eventType": "a", "payload": {} }))
        .await
        .error(403, "permission_denied");
}

#[tokio::test]
async fn a_key_of_an_application_has_no_access_to_the_operators_api() {
    let registry = TestRegistry::new();
    let overview = "/v1/webhook-outbox/overview";
    let refused = registry.with_bearer(APP_KEY).send(Method::GET, overview, &[], Body::empty()).await;
    assert_eq!(refused.json(403)["error"]["code"], "forbidden");
    registry.with_bearer(OPERATOR).send(Method::GET, overview, &[], Body::empty()).await.json(200);
    let token = registry.with_bearer(&TestRegistry::token("org_default", None));
    assert_eq!(
        token.send(Method::GET, overview, &[], Body::empty()).await.json(401)["error"]["code"],
        "unauthorized"
    );
}

#[tokio::test]
async fn without_keys_the_local_user_may_do_everything() {
    let local = TestRegistry::local().with_bearer("any token of an SDK");
    local.app("shop").await;
    local.endpoint("r").await;
    local.get("/app/shop/endpoint/r/secret").await.json(200);
    let remote =
        local.send(Method::GET, "/api/v1/app", &[("x-forwarded-for", "203.0.113.7")], Body::empty()).await;
    remote.error(403, "permission_denied");
}
