//! Bulk operations on dead letters over HTTP.

use axum::body::Body;
use http::Method;
use serde_json::{Value, json};

use crate::test_api::{
    DLQ, EVENTS, OPERATOR, OVERVIEW, TestApi, VIEWER, bearer, build_request, event, event_to, header,
};

const BULK: &str = "/v1/webhook-outbox/bulk";

crate::on_every_store! {
    a_dry_run_counts_and_starts_nothing,
    an_operation_requeues_what_its_filter_selects_and_shows_its_progress,
    dead_letters_are_cancelled_and_discarded_in_bulk,
    a_stopped_operation_says_who_stopped_it,
    a_repeated_request_returns_the_same_operation,
    operations_are_listed_page_by_page,
}

async fn start(api: &TestApi, body: Value) -> Value {
    api.post(BULK, body.to_string()).await.json(202)
}

async fn advance(api: &TestApi) -> usize {
    api.store.bulk().advance(100).await.unwrap().done
}

async fn show(api: &TestApi, operation: &Value) -> Value {
    api.get(&format!("{BULK}/{}", operation["operation_id"].as_str().unwrap())).await.json(200)
}

async fn a_dry_run_counts_and_starts_nothing(api: TestApi) {
    api.dead_lettered_event(&event_to("https://one.example/")).await;
    api.dead_lettered_event(&event_to("https://other.example/")).await;
    let count = async |filter: Value| {
        let body = json!({ "action": "requeue", "filter": filter, "dry_run": true });
        api.post(BULK, body.to_string()).await.json(200)
    };
    assert_eq!(count(json!({})).await, json!({ "matched_count": 2, "is_exact": true }));
    assert_eq!(count(json!({ "destination": "https://one.example/" })).await["matched_count"], 1);
    assert_eq!(count(json!({ "failure_kind": "cancelled" })).await["matched_count"], 0);
    assert_eq!(api.get(BULK).await.json(200), json!({ "operations": [], "next_cursor": null }));
}

async fn an_operation_requeues_what_its_filter_selects_and_shows_its_progress(api: TestApi) {
    let selected = api.dead_lettered_event(&event_to("https://one.example/")).await;
    let left = api.dead_lettered_event(&event_to("https://other.example/")).await;
    let filter = json!({ "destination": "https://one.example/", "error_class": "http_4xx" });
    let body = json!({ "action": "requeue", "filter": filter, "rate_per_second": 50, "reason": "it is up" });
    let started = start(&api, body).await;
    assert_eq!((&started["state"], &started["matched_count"]), (&json!("running"), &json!(1)));
    assert_eq!(started["filter"]["destination"], "https://one.example/");
    assert_eq!(started["filter"]["until"], started["created_at"], "later failures are left alone");
    assert_eq!((&started["actor"], &started["reason"]), (&json!("local"), &json!("it is up")));
    assert_eq!(advance(&api).await, 1);
    let finished = show(&api, &started).await;
    assert_eq!((&finished["state"], &finished["done_count"]), (&json!("finished"), &json!(1)));
    let status =
        async |id: &str| api.get(&format!("{EVENTS}/{id}")).await.json(200)["delivery_status"].clone();
    assert_eq!((status(&selected).await, status(&left).await), (json!("pending"), json!("failed")));
}

async fn dead_letters_are_cancelled_and_discarded_in_bulk(api: TestApi) {
    api.dead_lettered_event(&event()).await;
    start(&api, json!({ "action": "cancel", "reason": "obsolete" })).await;
    assert_eq!(advance(&api).await, 1);
    let cancelled = &api.get(DLQ).await.json(200)["events"][0];
    assert_eq!(cancelled["last_error"], "manual_cancelled: obsolete");
    start(&api, json!({ "action": "discard" })).await;
    assert_eq!(advance(&api).await, 0, "without a kind, cancelled events are left alone");
    start(&api, json!({ "action": "discard", "filter": { "failure_kind": "cancelled" } })).await;
    assert_eq!(advance(&api).await, 1);
    assert_eq!(api.get(OVERVIEW).await.json(200)["failed_count"], 0);
}

async fn a_stopped_operation_says_who_stopped_it(api: TestApi) {
    api.dead_lettered_event(&event()).await;
    let started = start(&api, json!({ "action": "requeue" })).await;
    let stop = format!("{BULK}/{}/stop", started["operation_id"].as_str().unwrap());
    let stopped = api.post_empty(&stop).await.json(200);
    assert_eq!((&stopped["state"], &stopped["stopped_by"]), (&json!("stopped"), &json!("local")));
    assert_eq!(advance(&api).await, 0);
    for path in [format!("{BULK}/bulk_00000000000003e7"), format!("{BULK}/nothing")] {
        api.get(&path).await.expect_error(404, "operation_not_found");
        api.post_empty(&format!("{path}/stop")).await.expect_error(404, "operation_not_found");
    }
}

async fn a_repeated_request_returns_the_same_operation(api: TestApi) {
    let send = async |body: &str| {
        let headers = [header("idempotency-key", "repair"), header("content-type", "application/json")];
        api.send(build_request(Method::POST, BULK, &headers, Body::from(body.to_owned()))).await
    };
    let first = send(r#"{"action":"requeue"}"#).await.json(202);
    let again = send(r#"{"action":"requeue"}"#).await.json(202);
    assert_eq!(first["operation_id"], again["operation_id"]);
    let (message, _) = send(r#"{"action":"discard"}"#).await.expect_error(409, "idempotency_key_conflict");
    assert!(message.contains("repair"), "{message}");
}

async fn operations_are_listed_page_by_page(api: TestApi) {
    for _ in 0..3 {
        start(&api, json!({ "action": "requeue" })).await;
    }
    let first = api.get(&format!("{BULK}?limit=2&state=running")).await.json(200);
    assert_eq!(first["operations"].as_array().unwrap().len(), 2);
    let cursor = first["next_cursor"].as_str().unwrap();
    let second = api.get(&format!("{BULK}?limit=2&cursor={cursor}")).await.json(200);
    assert_eq!(second["operations"].as_array().unwrap().len(), 1);
    assert_eq!(second["next_cursor"], json!(null));
    api.get(&format!("{BULK}?cursor=x")).await.expect_error(400, "invalid_request");
    api.get(&format!("{BULK}?state=done")).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn an_invalid_request_is_refused_with_its_field() {
    let api = TestApi::on_memory().await;
    for (body, field) in [
        (json!({ "action": "explode" }), "action"),
        (json!({ "action": "requeue", "rate_per_second": 10_001 }), "rate_per_second"),
        (json!({ "action": "requeue", "filter": { "error_class": "http_200" } }), "filter.error_class"),
        (json!({ "action": "requeue", "filter": { "app": "shop" } }), "filter.app"),
        (json!({ "action": "requeue", "filter": { "event_type": "" } }), "filter.event_type"),
        (json!({ "action": "cancel", "reason": "x".repeat(501) }), "reason"),
    ] {
        let (_, details) = api.post(BULK, body.to_string()).await.expect_error(400, "invalid_request");
        assert_eq!(details["field"], field, "{body}");
    }
    api.post_empty(BULK).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn a_viewer_sees_operations_and_starts_none() {
    let api = TestApi::on_memory().await.with_keys();
    let post = async |key: &str| {
        let headers = [bearer(key), header("content-type", "application/json")];
        let body = Body::from(r#"{"action":"requeue"}"#);
        api.send(build_request(Method::POST, BULK, &headers, body)).await
    };
    assert_eq!(post(OPERATOR).await.json(202)["actor"], "ops");
    post(VIEWER).await.expect_error(403, "forbidden");
    assert_eq!(api.get_as(VIEWER, BULK).await.json(200)["operations"].as_array().unwrap().len(), 1);
}
