//! Isolation of producers: each sees what its own key stored, and nothing of others; nor does it see what receivers wrote.

use axum::body::Body;
use http::Method;
use posthaste_api::{Access, KeyRing};
use posthaste_domain::{ErrorClass, Outcome};
use serde_json::{Value, json};

use crate::test_api::{
    DLQ, DocumentedOperation, EVENTS, OPERATOR, PRODUCER, TestApi, TestOptions, TestResponse, VIEWER, bearer,
    build_request, claim_all, documented_operations, event, header, http_status, settle,
};

crate::on_every_store! {
    nothing_shows_a_producer_the_events_of_others,
    a_taken_event_id_reveals_nothing_about_its_event,
    a_producer_sees_the_status_of_a_response_but_not_its_text,
    viewers_and_operators_see_which_key_stored_an_event,
}

const BILLING: &str = "billing-0123456789";
/// A part of every URL and response that only its producer, or only operators, may see.
const SECRET: &str = "hunter2";
const URL: &str = "https://receiver.example/hook?token=hunter2";

/// An API with two producers, an operator and a viewer.
fn with_two_producers(api: &TestApi) -> TestApi {
    api.with_options(TestOptions { access: two_producers(), ..TestOptions::default() })
}

fn two_producers() -> Access {
    let keys = format!(
        "orders:producer:{PRODUCER},billing:producer:{BILLING},ops:operator:{OPERATOR},eyes:viewer:{VIEWER}"
    );
    Access::Keys(KeyRing::parse(&keys).unwrap())
}

fn event_with_id(event_id: &str) -> Value {
    json!({"destination_url": URL, "event_type": "invoice.paid", "payload": 1, "event_id": event_id})
}

async fn enqueue_as(api: &TestApi, key: &str, event_id: &str) -> TestResponse {
    api.post_with(EVENTS, &[bearer(key)], event_with_id(event_id).to_string()).await
}

async fn act(api: &TestApi, path: &str) {
    api.send(build_request(Method::POST, path, &[bearer(OPERATOR)], Body::empty())).await.json(200);
}

/// Stores events of `orders`, of the operator and of a caller without a key, one in each state. Returns their ids.
async fn events_of_others(api: &TestApi, keyed: &TestApi) -> Vec<&'static str> {
    let secret = |status| Outcome::response(status, None, SECRET.as_bytes());
    let attempts = [
        ("delivered", secret(200)),
        ("retrying", secret(503)),
        ("unreachable", Outcome::no_response(ErrorClass::Connect, SECRET)),
        ("failed", secret(410)),
        ("discarded", secret(410)),
    ];
    for (event_id, outcome) in attempts {
        enqueue_as(keyed, PRODUCER, event_id).await.json(202);
        settle(&api.store, &claim_all(&api.store).await[0], outcome).await;
    }
    act(keyed, &format!("{DLQ}/discarded/discard")).await;
    for (event_id, key) in [("pending", PRODUCER), ("cancelled", PRODUCER), ("of-the-operator", OPERATOR)] {
        enqueue_as(keyed, key, event_id).await.json(202);
    }
    act(keyed, &format!("{EVENTS}/cancelled/cancel")).await;
    api.post(EVENTS, event_with_id("without-a-key").to_string()).await.json(202);
    vec![
        "delivered",
        "retrying",
        "unreachable",
        "failed",
        "discarded",
        "pending",
        "cancelled",
        "of-the-operator",
        "without-a-key",
    ]
}

/// Calls an operation with the key of `billing`, for an event id.
async fn call(api: &TestApi, operation: &DocumentedOperation, event_id: &str) -> TestResponse {
    let path = operation.path.replace("{event_id}", event_id).replace("{destination_id}", "1");
    let headers = [bearer(BILLING), header("content-type", "application/json")];
    api.send(build_request(operation.method.clone(), &path, &headers, Body::empty())).await
}

async fn nothing_shows_a_producer_the_events_of_others(api: TestApi) {
    let keyed = with_two_producers(&api);
    let of_others = events_of_others(&api, &keyed).await;
    for operation in documented_operations() {
        let unknown = call(&keyed, operation, "unknown").await;
        for event_id in &of_others {
            let response = call(&keyed, operation, event_id).await;
            let shown = response.text();
            assert!(!shown.contains(SECRET), "{} of {event_id}: {shown}", operation.id);
            if operation.path.contains("{event_id}") {
                let expected = unknown.text().replace("unknown", event_id);
                assert_eq!((response.status, shown), (unknown.status, &*expected), "{}", operation.id);
                assert_eq!(response.headers, with_length(&unknown, expected.len()), "{}", operation.id);
            }
        }
    }
    keyed
        .get_as(BILLING, &format!("{EVENTS}/pending"))
        .await
        .expect_error(404, "webhook_outbox_event_not_found");
    let own = keyed.get_as(PRODUCER, &format!("{EVENTS}/pending")).await.json(200);
    assert_eq!((&own["destination_url"], &own["stored_by"]), (&json!(URL), &json!("orders")));
}

/// Returns the headers of a response whose body has another length.
fn with_length(response: &TestResponse, len: usize) -> http::HeaderMap {
    let mut headers = response.headers.clone();
    if headers.contains_key("content-length") {
        headers.insert("content-length", len.into());
    }
    headers
}

async fn a_taken_event_id_reveals_nothing_about_its_event(api: TestApi) {
    let keyed = with_two_producers(&api);
    let of_others = events_of_others(&api, &keyed).await;
    enqueue_as(&keyed, BILLING, "own").await.json(202);
    let own = enqueue_as(&keyed, BILLING, "own").await;
    own.expect_error(409, "event_id_taken");
    for event_id in of_others {
        let response = enqueue_as(&keyed, BILLING, event_id).await;
        let (message, details) = response.expect_error(409, "event_id_taken");
        let expected = format!(
            "event_id {event_id} is already in use; choose another, or omit it to have one generated"
        );
        assert_eq!((message.as_str(), &details), (expected.as_str(), &json!({ "field": "event_id" })));
        assert_eq!(response.text(), own.text().replace("own", event_id));
    }
}

async fn a_producer_sees_the_status_of_a_response_but_not_its_text(api: TestApi) {
    let keyed = with_two_producers(&api);
    let with_excerpts = api.with_options(TestOptions {
        access: two_producers(),
        producer_excerpts: true,
        ..TestOptions::default()
    });
    let secret = |status| Outcome::response(status, None, SECRET.as_bytes());
    let url = event()["destination_url"].clone();
    for (event_id, outcome, error) in [
        ("delivered", secret(200), None),
        ("retrying", secret(503), Some("HTTP 503")),
        ("unreachable", Outcome::no_response(ErrorClass::Certificate, SECRET), Some("certificate")),
        ("failed", secret(410), Some("HTTP 410")),
    ] {
        let mut event = event_with_id(event_id);
        event["destination_url"] = url.clone();
        keyed.post_with(EVENTS, &[bearer(PRODUCER)], event.to_string()).await.json(202);
        let (status, class) = (outcome.http_status(), outcome.error_class().map(ErrorClass::as_str));
        settle(&api.store, &claim_all(&api.store).await[0], outcome).await;
        let path = format!("{EVENTS}/{event_id}");
        let seen = keyed.get_as(PRODUCER, &path).await;
        assert!(!seen.text().contains(SECRET), "{}", seen.text());
        let seen = seen.json(200);
        assert_eq!(seen["last_error"], json!(error), "{seen}");
        assert!(seen["explanation"].as_str().unwrap().contains(error.unwrap_or("Delivered")), "{seen}");
        let attempt = seen["history"][0].as_object().unwrap();
        assert_eq!((&attempt["http_status"], &attempt["error_class"]), (&json!(status), &json!(class)));
        assert!(!attempt.contains_key("excerpt"), "{seen}");
        for (api, key) in [(&keyed, VIEWER), (&keyed, OPERATOR), (&with_excerpts, PRODUCER)] {
            let seen = api.get_as(key, &path).await.json(200);
            assert_eq!(seen["history"][0]["excerpt"], SECRET, "{seen}");
            assert_eq!(seen["last_error"], json!(error.map(|error| format!("{error}: {SECRET}"))), "{seen}");
        }
    }
}

async fn viewers_and_operators_see_which_key_stored_an_event(api: TestApi) {
    let keyed = with_two_producers(&api);
    let expected = [("a", json!("orders")), ("b", json!("ops")), ("c", Value::Null)];
    enqueue_as(&keyed, PRODUCER, "a").await.json(202);
    enqueue_as(&keyed, OPERATOR, "b").await.json(202);
    api.post(EVENTS, event_with_id("c").to_string()).await.json(202);
    for lease in claim_all(&api.store).await {
        settle(&api.store, &lease, http_status(410)).await;
    }
    for key in [VIEWER, OPERATOR] {
        for list in [EVENTS, DLQ] {
            let page = keyed.get_as(key, list).await.json(200);
            for (event_id, stored_by) in &expected {
                let mut events = page["events"].as_array().unwrap().iter();
                let found = events.find(|event| event["event_id"] == *event_id).unwrap();
                assert_eq!(found["stored_by"], *stored_by, "{found}");
            }
        }
        for (event_id, stored_by) in &expected {
            let shown = keyed.get_as(key, &format!("{EVENTS}/{event_id}")).await.json(200);
            assert_eq!(shown["stored_by"], *stored_by, "{shown}");
        }
    }
}

#[tokio::test]
async fn a_producer_keeps_its_events_when_its_key_is_replaced() {
    let api = TestApi::on_memory().await;
    enqueue_as(&with_two_producers(&api), PRODUCER, "kept").await.json(202);
    let replaced = "replaced-0123456789";
    let keys = KeyRing::parse(&format!("orders:producer:{replaced},other:producer:{PRODUCER}")).unwrap();
    let api = api.with_options(TestOptions { access: Access::Keys(keys), ..TestOptions::default() });
    let path = format!("{EVENTS}/kept");
    assert_eq!(api.get_as(replaced, &path).await.json(200)["stored_by"], "orders");
    api.get_as(PRODUCER, &path).await.expect_error(404, "webhook_outbox_event_not_found");
}

#[tokio::test]
async fn a_key_of_any_name_gets_no_response_of_a_caller_without_a_key() {
    let api = TestApi::on_memory().await;
    let idempotency = header("idempotency-key", "1");
    let first =
        api.post_with(EVENTS, std::slice::from_ref(&idempotency), event().to_string()).await.json(202);
    let keys = KeyRing::parse(&format!("local:producer:{PRODUCER}")).unwrap();
    let keyed = api.with_options(TestOptions { access: Access::Keys(keys), ..TestOptions::default() });
    let second =
        keyed.post_with(EVENTS, &[bearer(PRODUCER), idempotency], event().to_string()).await.json(202);
    assert_ne!(first["event_id"], second["event_id"]);
    let path = format!("{EVENTS}/{}", first["event_id"].as_str().unwrap());
    keyed.get_as(PRODUCER, &path).await.expect_error(404, "webhook_outbox_event_not_found");
}
