//! Idempotency keys: a producer that missed the response repeats its request safely.

use posthaste_api::{Access, KeyRing};
use serde_json::json;

use crate::test_api::{
    DLQ, EVENTS, OVERVIEW, PRODUCER, TestApi, TestOptions, TestResponse, bearer, claim_all, event, header,
    http_status, settle,
};

crate::on_every_store! {
    a_replay_returns_the_first_response,
    a_replay_of_an_array_returns_the_first_response,
    a_key_with_another_body_is_a_conflict,
    concurrent_first_uses_of_one_key_make_one_event,
    callers_do_not_share_idempotency_keys,
    a_repeated_requeue_gets_the_first_response,
    a_repeated_cancel_gets_the_first_response,
}

async fn a_repeated_requeue_gets_the_first_response(api: TestApi) {
    let event_id = api.dead_lettered_event(&event()).await;
    let requeue = async |key: &'static str| {
        let path = format!("{DLQ}/{event_id}/requeue");
        api.post_with(&path, &[header("idempotency-key", key)], String::new()).await
    };
    let first = requeue("repair-1").await.json(200);
    assert_eq!(requeue("repair-1").await.json(200), first);
    let lease = claim_all(&api.store).await.remove(0);
    settle(&api.store, &lease, http_status(200)).await;
    assert_eq!(requeue("repair-1").await.json(200), first, "the first response, even after the delivery");
    requeue("repair-2").await.expect_error(409, "webhook_outbox_event_not_requeueable");
    let (message, _) = api
        .post_with(
            &format!("{EVENTS}/{event_id}/cancel"),
            &[header("idempotency-key", "repair-1")],
            String::new(),
        )
        .await
        .expect_error(409, "idempotency_key_conflict");
    assert!(message.contains("\"repair-1\""), "{message}");
    requeue("").await.expect_error(400, "invalid_request");
    let shown = api.get(&format!("{EVENTS}/{event_id}")).await.json(200);
    assert_eq!(shown["delivery_status"], "delivered");
}

async fn a_repeated_cancel_gets_the_first_response(api: TestApi) {
    let event_id = api.pending_event(&event()).await;
    let cancel = async || {
        let headers = [header("idempotency-key", "stop-1")];
        let body = r#"{"reason":"wrong customer"}"#.to_owned();
        api.post_with(&format!("{EVENTS}/{event_id}/cancel"), &headers, body).await
    };
    let first = cancel().await.json(200);
    api.post_empty(&format!("{DLQ}/{event_id}/requeue")).await.json(200);
    assert_eq!(cancel().await.json(200), first);
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1, "the repetition cancelled nothing");
}

async fn keyed(api: &TestApi, key: &str, body: String) -> TestResponse {
    api.post_with(EVENTS, &[header("idempotency-key", key)], body).await
}

async fn a_replay_returns_the_first_response(api: TestApi) {
    let first = keyed(&api, "order-17", event().to_string()).await.json(202);
    assert_eq!(keyed(&api, "order-17", event().to_string()).await.json(200), first);
    let lease = claim_all(&api.store).await.remove(0);
    settle(&api.store, &lease, http_status(200)).await;
    let replay = keyed(&api, "order-17", event().to_string()).await.json(200);
    assert_eq!(replay, first, "the first response, even after the delivery");
    assert_eq!(api.get(OVERVIEW).await.json(200)["delivered_count"], 1);
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 0);
}

async fn a_replay_of_an_array_returns_the_first_response(api: TestApi) {
    let many = json!([event(), event(), event()]).to_string();
    let first = keyed(&api, "batch-1", many.clone()).await.json(202);
    assert_eq!(keyed(&api, "batch-1", many).await.json(200), first);
    assert_eq!(first["events"].as_array().unwrap().len(), 3);
    let one = json!([event()]).to_string();
    let first = keyed(&api, "batch-2", one.clone()).await.json(202);
    assert_eq!(keyed(&api, "batch-2", one).await.json(200), first, "an array of one stays an array");
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 4);
}

async fn a_key_with_another_body_is_a_conflict(api: TestApi) {
    keyed(&api, "order-17", event().to_string()).await.json(202);
    let others = [
        json!([event()]).to_string(),
        event().to_string() + " ",
        event().to_string().replace("invoice.paid", "invoice.sent"),
    ];
    for other in others {
        let (message, _) = keyed(&api, "order-17", other).await.expect_error(409, "idempotency_key_conflict");
        assert!(message.contains("\"order-17\""), "{message}");
    }
    keyed(&api, "order-18", event().to_string()).await.json(202);
    api.enqueue(&event()).await.json(202);
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 3);
}

async fn concurrent_first_uses_of_one_key_make_one_event(api: TestApi) {
    let requests = (0..20).map(|_| keyed(&api, "order-17", event().to_string()));
    let responses = futures_util::future::join_all(requests).await;
    let first = responses.iter().filter(|response| response.status.as_u16() == 202).count();
    assert_eq!(first, 1, "exactly one request stores the event");
    let ids: std::collections::BTreeSet<&[u8]> =
        responses.iter().map(|response| &response.body[..]).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(api.get(OVERVIEW).await.json(200)["pending_count"], 1);
}

async fn callers_do_not_share_idempotency_keys(api: TestApi) {
    let keys = format!("orders:producer:{PRODUCER},billing:producer:another-0123456789");
    let options =
        TestOptions { access: Access::Keys(KeyRing::parse(&keys).unwrap()), ..TestOptions::default() };
    let keyed = api.with_options(options);
    let key = header("idempotency-key", "1");
    let mut ids = Vec::new();
    for (caller, expected) in [(PRODUCER, 202), ("another-0123456789", 202), (PRODUCER, 200)] {
        let headers = [bearer(caller), key.clone()];
        let response = keyed.post_with(EVENTS, &headers, event().to_string()).await.json(expected);
        ids.push(response["event_id"].as_str().unwrap().to_owned());
    }
    assert!(ids[0] != ids[1] && ids[0] == ids[2], "{ids:?}");
}

#[tokio::test]
async fn a_key_is_1_to_255_printable_characters_sent_once() {
    let api = TestApi::on_memory().await;
    let long = "k".repeat(255);
    for good in ["k", long.as_str(), "with space", "\"quoted\"", "a:b"] {
        keyed(&api, good, event().to_string()).await.json(202);
    }
    let longer = "k".repeat(256);
    for bad in ["", longer.as_str(), "caf\u{e9}", "a\tb"] {
        let (message, details) =
            keyed(&api, bad, event().to_string()).await.expect_error(400, "invalid_request");
        assert!(message.contains("1 to 255 printable ASCII"), "{message}");
        assert_eq!(details, json!({ "header": "idempotency-key" }));
    }
    let twice = [header("idempotency-key", "a"), header("idempotency-key", "b")];
    api.post_with(EVENTS, &twice, event().to_string()).await.expect_error(400, "invalid_request");
}

#[tokio::test]
async fn a_rejected_request_does_not_use_up_its_key() {
    let api = TestApi::on_memory().await;
    keyed(&api, "order-17", "{}".to_owned()).await.expect_error(400, "invalid_request");
    keyed(&api, "order-17", event().to_string()).await.json(202);
}

#[tokio::test]
async fn a_key_expires() {
    let (store, clock) = crate::test_api::memory_at(1_700_000_000);
    let api = TestApi::on_store(std::sync::Arc::new(store), std::sync::Arc::new(()));
    keyed(&api, "order-17", event().to_string()).await.json(202);
    clock.advance(std::time::Duration::from_secs(24 * 3_600 - 1));
    keyed(&api, "order-17", event().to_string()).await.json(200);
    clock.advance(std::time::Duration::from_secs(2));
    keyed(&api, "order-17", event().to_string()).await.json(202);
}

#[tokio::test]
async fn a_replay_may_come_with_another_traceparent() {
    let api = TestApi::on_memory().await;
    let key = || header("idempotency-key", "order-17");
    api.post_with(EVENTS, &[key()], event().to_string()).await.json(202);
    let traced = [key(), header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")];
    api.post_with(EVENTS, &traced, event().to_string()).await.json(200);
}
