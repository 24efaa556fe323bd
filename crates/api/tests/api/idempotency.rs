//! A producer that did not get its answer asks again, and gets it.

use posthaste_api::{Access, KeyRing};
use serde_json::json;

use crate::stage::{
    Answer, EVENTS, OVERVIEW, PRODUCER, Setting, Stage, bearer, claim_all, event, header, settle, status,
};

crate::on_every_store! {
    a_replay_brings_the_first_answer,
    a_replay_of_an_array_brings_the_first_answer,
    a_key_with_another_body_is_a_conflict,
    concurrent_first_uses_of_one_key_make_one_event,
    every_caller_has_keys_of_its_own,
}

async fn keyed(stage: &Stage, key: &str, body: String) -> Answer {
    stage.post_with(EVENTS, &[header("idempotency-key", key)], body).await
}

async fn a_replay_brings_the_first_answer(stage: Stage) {
    let first = keyed(&stage, "order-17", event().to_string()).await.json(202);
    assert_eq!(keyed(&stage, "order-17", event().to_string()).await.json(200), first);
    let lease = claim_all(&stage.store).await.remove(0);
    settle(&stage.store, &lease, status(200)).await;
    let replay = keyed(&stage, "order-17", event().to_string()).await.json(200);
    assert_eq!(replay, first, "also when the event has moved on");
    assert_eq!(stage.get(OVERVIEW).await.json(200)["delivered_count"], 1);
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 0);
}

async fn a_replay_of_an_array_brings_the_first_answer(stage: Stage) {
    let many = json!([event(), event(), event()]).to_string();
    let first = keyed(&stage, "batch-1", many.clone()).await.json(202);
    assert_eq!(keyed(&stage, "batch-1", many).await.json(200), first);
    assert_eq!(first["events"].as_array().unwrap().len(), 3);
    let one = json!([event()]).to_string();
    let first = keyed(&stage, "batch-2", one.clone()).await.json(202);
    assert_eq!(keyed(&stage, "batch-2", one).await.json(200), first, "an array of one stays an array");
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 4);
}

async fn a_key_with_another_body_is_a_conflict(stage: Stage) {
    keyed(&stage, "order-17", event().to_string()).await.json(202);
    let others = [
        json!([event()]).to_string(),
        event().to_string() + " ",
        event().to_string().replace("invoice.paid", "invoice.sent"),
    ];
    for other in others {
        let (message, _) = keyed(&stage, "order-17", other).await.refused(409, "idempotency_key_conflict");
        assert!(message.contains("\"order-17\""), "{message}");
    }
    keyed(&stage, "order-18", event().to_string()).await.json(202);
    stage.enqueue(&event()).await.json(202);
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 3);
}

async fn concurrent_first_uses_of_one_key_make_one_event(stage: Stage) {
    let asks = (0..20).map(|_| keyed(&stage, "order-17", event().to_string()));
    let answers = futures_util::future::join_all(asks).await;
    let first = answers.iter().filter(|answer| answer.status.as_u16() == 202).count();
    assert_eq!(first, 1, "one of them was the first");
    let ids: std::collections::BTreeSet<&[u8]> = answers.iter().map(|answer| &answer.body[..]).collect();
    assert_eq!(ids.len(), 1, "{ids:?}");
    assert_eq!(stage.get(OVERVIEW).await.json(200)["pending_count"], 1);
}

async fn every_caller_has_keys_of_its_own(stage: Stage) {
    let keys = format!("orders:producer:{PRODUCER},billing:producer:another-0123456789");
    let setting = Setting { access: Access::Keys(KeyRing::parse(&keys).unwrap()), ..Setting::default() };
    let keyed = stage.with(setting);
    let key = header("idempotency-key", "1");
    let mut ids = Vec::new();
    for (caller, expected) in [(PRODUCER, 202), ("another-0123456789", 202), (PRODUCER, 200)] {
        let headers = [bearer(caller), key.clone()];
        let answer = keyed.post_with(EVENTS, &headers, event().to_string()).await.json(expected);
        ids.push(answer["event_id"].as_str().unwrap().to_owned());
    }
    assert!(ids[0] != ids[1] && ids[0] == ids[2], "{ids:?}");
}

#[tokio::test]
async fn a_key_is_1_to_255_printable_characters_sent_once() {
    let stage = Stage::on_memory().await;
    let long = "k".repeat(255);
    for good in ["k", long.as_str(), "with space", "\"quoted\"", "a:b"] {
        keyed(&stage, good, event().to_string()).await.json(202);
    }
    let longer = "k".repeat(256);
    for bad in ["", longer.as_str(), "caf\u{e9}", "a\tb"] {
        let (message, details) =
            keyed(&stage, bad, event().to_string()).await.refused(400, "invalid_request");
        assert!(message.contains("1 to 255 printable ASCII"), "{message}");
        assert_eq!(details, json!({ "header": "idempotency-key" }));
    }
    let twice = [header("idempotency-key", "a"), header("idempotency-key", "b")];
    stage.post_with(EVENTS, &twice, event().to_string()).await.refused(400, "invalid_request");
}

#[tokio::test]
async fn a_refused_request_does_not_use_up_its_key() {
    let stage = Stage::on_memory().await;
    keyed(&stage, "order-17", "{}".to_owned()).await.refused(400, "invalid_request");
    keyed(&stage, "order-17", event().to_string()).await.json(202);
}

#[tokio::test]
async fn a_key_is_forgotten_after_its_time() {
    let (store, clock) = crate::stage::memory_at(1_700_000_000);
    let stage = Stage::over(std::sync::Arc::new(store), std::sync::Arc::new(()));
    keyed(&stage, "order-17", event().to_string()).await.json(202);
    clock.advance(std::time::Duration::from_secs(24 * 3_600 - 1));
    keyed(&stage, "order-17", event().to_string()).await.json(200);
    clock.advance(std::time::Duration::from_secs(2));
    keyed(&stage, "order-17", event().to_string()).await.json(202);
}

#[tokio::test]
async fn a_replay_may_come_with_another_traceparent() {
    let stage = Stage::on_memory().await;
    let key = || header("idempotency-key", "order-17");
    stage.post_with(EVENTS, &[key()], event().to_string()).await.json(202);
    let traced = [key(), header("traceparent", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")];
    stage.post_with(EVENTS, &traced, event().to_string()).await.json(200);
}
