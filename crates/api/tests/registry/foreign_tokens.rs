//! No route shows or changes anything of another tenant. The walk takes its routes from the router's own table.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use crate::fixture::TestRegistry;

/// Every documented operation, as method, path and whether it needs no caller.
fn operations() -> Vec<(Method, String, bool)> {
    let document: Value = serde_json::from_str(&posthaste_api::registry_openapi_json()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let operations = paths.iter().flat_map(|(path, item)| {
        item.as_object().unwrap().iter().map(|(method, operation)| {
            (method.to_uppercase().parse().unwrap(), path.clone(), operation.get("security").is_some())
        })
    });
    operations.collect()
}

/// A body that each route accepts, so that only the caller can be the reason of a refusal.
fn body(path: &str) -> Value {
    if path.ends_with("/headers") {
        return json!({ "headers": {} });
    }
    json!({
        "name": "n", "uid": "hijacked", "url": "https://evil.example/", "description": "", "eventType": "a",
        "payload": {}, "since": "2023-11-14T00:00:00Z",
    })
}

struct Victim {
    app: String,
    endpoint: String,
    message: String,
    attempt: String,
    task: String,
}

/// Fills the organisation of the operator's key.
async fn victim(registry: &TestRegistry) -> Victim {
    let app = registry.app("shop").await;
    let endpoint = registry.endpoint("r").await;
    registry.post("/event-type", json!({ "name": "victim", "description": "" })).await.json(201);
    let message = registry.message("victim").await;
    registry.deliver(200, b"").await;
    let attempts = registry.get(&format!("/app/shop/attempt/msg/{message}")).await.json(200);
    let recover = json!({ "since": "2023-11-14T00:00:00Z" });
    let task = registry.post("/app/shop/endpoint/r/recover", recover).await.json(202);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    Victim { app, endpoint, message, attempt: text(&attempts["data"][0]["id"]), task: text(&task["id"]) }
}

impl Victim {
    fn path(&self, template: &str) -> String {
        template
            .replace("{app_id}", &self.app)
            .replace("{endpoint_id}", &self.endpoint)
            .replace("{msg_id}", &self.message)
            .replace("{attempt_id}", &self.attempt)
            .replace("{task_id}", &self.task)
            .replace("{event_type_name}", "victim")
    }
}

/// Everything of the victim that a request could change.
async fn state(registry: &TestRegistry) -> Vec<Value> {
    let mut state = vec![];
    for path in [
        "/app",
        "/app/shop",
        "/app/shop/endpoint",
        "/app/shop/endpoint/r/secret",
        "/app/shop/endpoint/r/headers",
        "/app/shop/msg",
        "/app/shop/attempt/endpoint/r",
        "/app/shop/endpoint/r/msg",
        "/event-type",
    ] {
        state.push(registry.get(path).await.json(200));
    }
    state
}

#[tokio::test]
async fn a_foreign_caller_finds_and_changes_nothing_on_any_route() {
    let registry = TestRegistry::new();
    let victim = victim(&registry).await;
    let own_app = registry.app("own").await;
    let before = state(&registry).await;
    let foreign_org = TestRegistry::token("org_foreign", None);
    let foreign_app = TestRegistry::token("org_default", Some(&own_app));
    let operations = operations();
    assert!(operations.len() >= 39, "{}", operations.len());
    for (bearer, is_org) in [(&foreign_org, true), (&foreign_app, false), (&String::new(), false)] {
        let foreign = registry.with_bearer(bearer);
        for (method, template, is_public) in &operations {
            if *is_public || (is_org && !template.contains("{app_id}") && !template.contains("{task_id}")) {
                continue;
            }
            // An application may read the event types of its organisation.
            if !bearer.is_empty() && *method == Method::GET && template.contains("event-type") {
                continue;
            }
            let path = victim.path(template);
            let headers = [("content-type", "application/json")];
            let body = if matches!(*method, Method::GET | Method::DELETE) {
                Body::empty()
            } else {
                Body::from(body(&path).to_string())
            };
            let reply = foreign.send(method.clone(), &path, &headers, body).await;
            let context = format!("{method} {path}: {}", reply.text());
            match (bearer.is_empty(), is_org) {
                (true, _) => assert_eq!(reply.status, 401, "{context}"),
                (false, true) => assert_eq!(reply.status, 404, "{context}"),
                (false, false) => assert!([403, 404].contains(&reply.status.as_u16()), "{context}"),
            }
            assert!(!reply.text().contains("r.example") && !reply.text().contains("whsec_"), "{context}");
        }
    }
    assert_eq!(state(&registry).await, before);
}

/// A caller that names its own application with the ids of another one's resources.
#[tokio::test]
async fn resources_of_another_application_do_not_exist_in_the_own_one() {
    let registry = TestRegistry::new();
    let victim = victim(&registry).await;
    let own = Victim { app: registry.app("own").await, ..victim };
    let before = state(&registry).await;
    let caller = registry.with_bearer(&TestRegistry::token("org_default", None));
    let mut walked = 0;
    for (method, template, _) in operations() {
        if !["{endpoint_id}", "{msg_id}", "{attempt_id}"].iter().any(|part| template.contains(part)) {
            continue;
        }
        let path = own.path(&template);
        let body = match method {
            Method::GET | Method::DELETE => Body::empty(),
            _ => Body::from(body(&path).to_string()),
        };
        let reply = caller.send(method.clone(), &path, &[("content-type", "application/json")], body).await;
        assert_eq!(reply.status, 404, "{method} {path}: {}", reply.text());
        walked += 1;
    }
    assert!(walked >= 20, "{walked}");
    assert_eq!(state(&registry).await, before);
    assert_eq!(caller.get("/app/own/endpoint").await.json(200)["data"], json!([]));
}

#[tokio::test]
async fn a_foreign_organisation_has_lists_and_event_types_of_its_own() {
    let registry = TestRegistry::new();
    let victim = victim(&registry).await;
    let foreign = registry.with_bearer(&TestRegistry::token("org_foreign", None));
    for (method, template, is_public) in operations() {
        if is_public
            || template.contains("{app_id}")
            || template.contains("{task_id}")
            || method != Method::GET
        {
            continue;
        }
        let reply = foreign.send(method, &victim.path(&template), &[], Body::empty()).await;
        assert!(
            !reply.text().contains("shop") && !reply.text().contains("description"),
            "{template}: {}",
            reply.text()
        );
    }
    foreign.put("/event-type/victim", json!({ "description": "theirs" })).await.json(201);
    foreign.delete("/event-type/victim?expunge=true").await.empty(204);
    assert_eq!(registry.get("/event-type/victim").await.json(200)["description"], "");
}
