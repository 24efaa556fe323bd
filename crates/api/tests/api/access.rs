//! Authorization by the role of the key.

use axum::body::Body;
use http::{HeaderName, HeaderValue, Method};
use serde_json::json;

use crate::test_api::{
    DLQ, DocumentedOperation, EVENTS, OPERATOR, OVERVIEW, PRODUCER, STREAM, TestApi, TestResponse, VIEWER,
    bearer, build_request, documented_operations, event, header,
};

/// Every operation that needs a key, with the keys that are allowed.
const ALLOWED_KEYS: [(&str, &[&str]); 21] = [
    ("getCaller", &[PRODUCER, VIEWER, OPERATOR]),
    ("enqueueEvents", &[PRODUCER, OPERATOR]),
    ("getEvent", &[PRODUCER, VIEWER, OPERATOR]),
    ("listEvents", &[VIEWER, OPERATOR]),
    ("listDeadLetters", &[VIEWER, OPERATOR]),
    ("getOverview", &[VIEWER, OPERATOR]),
    ("getHistory", &[VIEWER, OPERATOR]),
    ("listWorkers", &[VIEWER, OPERATOR]),
    ("getMetrics", &[VIEWER, OPERATOR]),
    ("getDiagnosis", &[VIEWER, OPERATOR]),
    ("requeueDeadLetter", &[OPERATOR]),
    ("discardDeadLetter", &[OPERATOR]),
    ("cancelEvent", &[OPERATOR]),
    ("startBulkOperation", &[OPERATOR]),
    ("listBulkOperations", &[VIEWER, OPERATOR]),
    ("getBulkOperation", &[VIEWER, OPERATOR]),
    ("stopBulkOperation", &[OPERATOR]),
    ("listDestinations", &[VIEWER, OPERATOR]),
    ("getDestination", &[VIEWER, OPERATOR]),
    ("pauseDestination", &[OPERATOR]),
    ("resumeDestination", &[OPERATOR]),
];

const WHOAMI: &str = "/v1/webhook-outbox/whoami";

async fn send(
    api: &TestApi,
    operation: &DocumentedOperation,
    headers: &[(HeaderName, HeaderValue)],
) -> TestResponse {
    let path = operation.path.replace("{event_id}", "missing");
    api.send(build_request(operation.method.clone(), &path, headers, Body::empty())).await
}

#[tokio::test]
async fn each_role_is_allowed_its_operations_and_no_others() {
    let api = TestApi::on_memory().await.with_keys();
    for (id, allowed) in ALLOWED_KEYS {
        let operation = documented_operations().iter().find(|operation| operation.id == id).unwrap();
        for (key, name, role) in
            [(PRODUCER, "orders", "producer"), (VIEWER, "eyes", "viewer"), (OPERATOR, "ops", "operator")]
        {
            let response = send(&api, operation, &[bearer(key)]).await;
            if allowed.contains(&key) {
                assert!(
                    ![401, 403].contains(&response.status.as_u16()),
                    "{id} as {role}: {}",
                    response.text()
                );
            } else {
                let (message, _) = response.expect_error(403, "forbidden");
                assert!(message.contains(name) && message.contains(role), "{id}: {message}");
            }
        }
    }
}

#[tokio::test]
async fn a_caller_learns_its_name_its_role_and_what_it_may_do() {
    let api = TestApi::on_memory().await;
    let everything = json!(["enqueue", "read_event", "read_all", "operate"]);
    let local = json!({ "name": "local", "role": null, "permissions": everything });
    assert_eq!(api.get(WHOAMI).await.json(200), local);
    let keyed = api.with_keys();
    for (key, name, role, permissions) in [
        (PRODUCER, "orders", "producer", json!(["enqueue", "read_event"])),
        (VIEWER, "eyes", "viewer", json!(["read_event", "read_all"])),
        (OPERATOR, "ops", "operator", everything),
    ] {
        let request = build_request(Method::GET, WHOAMI, &[bearer(key)], Body::empty());
        let expected = json!({ "name": name, "role": role, "permissions": permissions });
        assert_eq!(keyed.send(request).await.json(200), expected);
    }
}

#[tokio::test]
async fn every_operation_that_is_not_public_needs_a_key() {
    let api = TestApi::on_memory().await.with_keys();
    let public: Vec<&str> = documented_operations()
        .iter()
        .filter(|operation| operation.public)
        .map(|operation| operation.id.as_str())
        .collect();
    assert_eq!(public, ["getHealth", "getOpenApi", "getReadiness"]);
    for operation in documented_operations() {
        let response = send(&api, operation, &[]).await;
        if operation.public {
            assert_eq!(response.status.as_u16(), 200, "{}", operation.id);
        } else {
            response.expect_error(401, "unauthorized");
            assert_eq!(response.header("www-authenticate"), Some("Bearer realm=\"posthaste\""));
        }
    }
    for page in ["/docs", "/docs/start.js", "/docs/scalar.js"] {
        assert_eq!(api.get(page).await.status.as_u16(), 200, "{page}");
    }
}

#[tokio::test]
async fn a_key_is_accepted_only_as_a_single_bearer_token() {
    let api = TestApi::on_memory().await.with_keys();
    let send = async |authorization: &str| {
        api.send(build_request(
            Method::GET,
            OVERVIEW,
            &[header("authorization", authorization)],
            Body::empty(),
        ))
        .await
    };
    for good in [format!("Bearer {VIEWER}"), format!("bearer {VIEWER}"), format!("BEARER   {VIEWER} ")] {
        assert_eq!(send(&good).await.status.as_u16(), 200, "{good}");
    }
    let wrong = [
        format!("Bearer {VIEWER}x"),
        format!("Bearer {}", &VIEWER[..VIEWER.len() - 1]),
        format!("Bearer {}", VIEWER.to_uppercase()),
        format!("Bearer {VIEWER} {VIEWER}"),
        "Bearer ".to_owned(),
        "Bearer eyes".to_owned(),
        format!("Bearer eyes:viewer:{VIEWER}"),
    ];
    for wrong in wrong {
        let response = send(&wrong).await;
        response.expect_error(401, "unauthorized");
        let challenge = response.header("www-authenticate").unwrap();
        assert!(challenge.starts_with("Bearer realm=\"posthaste\""), "{challenge}");
        assert!(!response.text().contains(VIEWER), "the response repeats the key");
    }
    for other in
        [VIEWER.to_owned(), format!("Basic {VIEWER}"), format!("Token {VIEWER}"), format!("Bearer{VIEWER}")]
    {
        send(&other).await.expect_error(401, "unauthorized");
    }
    let twice = [bearer(VIEWER), bearer(VIEWER)];
    api.send(build_request(Method::GET, OVERVIEW, &twice, Body::empty()))
        .await
        .expect_error(401, "unauthorized");
    api.get(&format!("{OVERVIEW}?key={VIEWER}")).await.expect_error(401, "unauthorized");
}

#[tokio::test]
async fn without_a_valid_key_nothing_is_revealed_or_changed() {
    let api = TestApi::on_memory().await;
    let event_id = api.dead_lettered_event(&event()).await;
    let keyed = api.with_keys();
    for path in [
        format!("{EVENTS}/{event_id}"),
        format!("{EVENTS}/missing"),
        format!("{DLQ}?limit=bad"),
        STREAM.to_owned(),
        "/metrics".to_owned(),
    ] {
        keyed.get(&path).await.expect_error(401, "unauthorized");
    }
    keyed.post_empty(&format!("{DLQ}/{event_id}/requeue")).await.expect_error(401, "unauthorized");
    keyed.post(EVENTS, "not json").await.expect_error(401, "unauthorized");
    assert_eq!(api.get(OVERVIEW).await.json(200)["failed_count"], 1);
    // The error must not reveal to a viewer whether the event exists.
    for name in [event_id.as_str(), "missing"] {
        let path = format!("{DLQ}/{name}/requeue");
        keyed
            .send(build_request(Method::POST, &path, &[bearer(VIEWER)], Body::empty()))
            .await
            .expect_error(403, "forbidden");
    }
}

#[tokio::test]
async fn with_keys_any_host_is_accepted() {
    let api = TestApi::on_memory().await.with_keys();
    let request = http::Request::builder()
        .uri(OVERVIEW)
        .header("host", "hooks.example")
        .header("origin", "https://admin.example")
        .header("authorization", format!("Bearer {VIEWER}"));
    assert_eq!(api.send(request.body(Body::empty()).unwrap()).await.json(200)["pending_count"], json!(0));
}
