//! Repeating a request whose response was lost.

use futures_util::future::join;
use posthaste_store::{EnqueueResponse, StoreError};

use crate::Harness;
use crate::fixture::*;

pub async fn replay_returns_the_first_response(harness: &dyn Harness) {
    let store = harness.store();
    let request = request_with_key("key", 1, vec![event()]);
    let first = try_enqueue(&store, request.clone()).await.expect("a fresh key is accepted");
    assert!(!first.replayed);
    let replay = try_enqueue(&store, request).await.expect("a replay succeeds");
    assert_eq!(replay, EnqueueResponse { replayed: true, ..first });
    assert_eq!(claim_all(&store).await.len(), 1);
}

pub async fn replay_through_another_handle_returns_the_first_response(harness: &dyn Harness) {
    let request = request_with_key("key", 1, vec![event()]);
    let first = try_enqueue(&harness.store(), request.clone()).await.expect("a fresh key is accepted");
    let replay = try_enqueue(&harness.second_handle(), request).await.expect("a replay succeeds");
    assert_eq!(replay, EnqueueResponse { replayed: true, ..first });
}

pub async fn replay_after_delivery_returns_the_first_response(harness: &dyn Harness) {
    let store = harness.store();
    let request = request_with_key("key", 1, vec![event()]);
    let first = try_enqueue(&store, request.clone()).await.expect("a fresh key is accepted");
    apply(&store, &claim_one(&store).await, success()).await;
    let replay = try_enqueue(&store, request).await.expect("a replay succeeds");
    assert_eq!(replay, EnqueueResponse { replayed: true, ..first });
    assert_nothing_claimable(&store).await;
}

pub async fn a_key_covers_every_event_of_its_request(harness: &dyn Harness) {
    let store = harness.store();
    let events = vec![event_with_id("z"), event(), event_with_id("a")];
    let first = try_enqueue(&store, request_with_key("key", 1, events.clone()))
        .await
        .expect("a fresh key is accepted");
    assert_eq!(first.receipts.len(), 3);
    let replay = try_enqueue(&store, request_with_key("key", 1, events)).await.expect("a replay succeeds");
    assert_eq!(replay, EnqueueResponse { replayed: true, ..first });
    assert_eq!(claim_all(&store).await.len(), 3);
}

pub async fn a_key_with_another_body_is_a_conflict(harness: &dyn Harness) {
    let store = harness.store();
    let first = try_enqueue(&store, request_with_key("key", 1, vec![event()]))
        .await
        .expect("a fresh key is accepted");
    let conflict = try_enqueue(&store, request_with_key("key", 2, vec![event_with_id("other")])).await;
    assert_eq!(conflict, Err(StoreError::IdempotencyConflict { key: "key".to_owned() }));
    assert!(!is_stored(&store, &id("other")).await);
    let replay = try_enqueue(&store, request_with_key("key", 1, vec![event()])).await;
    assert_eq!(
        replay,
        Ok(EnqueueResponse { replayed: true, ..first }),
        "the key still belongs to its first request"
    );
}

pub async fn requests_with_other_keys_or_no_key_are_not_replays(harness: &dyn Harness) {
    let store = harness.store();
    let requests = [
        request_with_key("key", 1, vec![event()]),
        request_with_key("Key", 1, vec![event()]),
        request(vec![event()]),
        request(vec![event()]),
    ];
    for request in requests {
        let response = try_enqueue(&store, request).await.expect("the request is accepted");
        assert!(!response.replayed);
    }
    assert_eq!(claim_all(&store).await.len(), 4);
}

pub async fn key_is_kept_until_it_expires(harness: &dyn Harness) {
    let store = harness.store();
    let request = request_with_key("key", 1, vec![event()]);
    let first = try_enqueue(&store, request.clone()).await.expect("a fresh key is accepted");
    harness.advance(KEY_LIFETIME / 2).await;
    let replay = try_enqueue(&store, request).await.expect("a replay succeeds");
    assert!(replay.replayed);
    assert_eq!(ids(&replay), ids(&first));
}

pub async fn expired_key_can_be_used_again(harness: &dyn Harness) {
    let store = harness.store();
    let first = try_enqueue(&store, request_with_key("key", 1, vec![event()]))
        .await
        .expect("a fresh key is accepted");
    harness.advance(KEY_LIFETIME + MINUTE).await;
    let other = try_enqueue(&store, request_with_key("key", 2, vec![event()]))
        .await
        .expect("an expired key can be used again");
    assert!(!other.replayed);
    assert_ne!(ids(&other), ids(&first));
    let replay = try_enqueue(&store, request_with_key("key", 2, vec![event()])).await;
    assert_eq!(
        replay,
        Ok(EnqueueResponse { replayed: true, ..other }),
        "the key belongs to its latest request"
    );
}

pub async fn a_refused_request_does_not_use_up_its_key(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event_with_id("taken")).await;
    let refused = try_enqueue(&store, request_with_key("key", 1, vec![event_with_id("taken")])).await;
    assert_eq!(refused, Err(StoreError::EventIdTaken { event_id: id("taken") }));
    let retried = try_enqueue(&store, request_with_key("key", 2, vec![event_with_id("fresh")])).await;
    assert!(!retried.expect("the refused request did not use its key").replayed);
}

pub async fn replay_with_an_event_id_is_not_an_event_id_conflict(harness: &dyn Harness) {
    let store = harness.store();
    let request = request_with_key("key", 1, vec![event_with_id("chosen")]);
    let first = try_enqueue(&store, request.clone()).await.expect("a fresh key is accepted");
    assert_eq!(try_enqueue(&store, request).await, Ok(EnqueueResponse { replayed: true, ..first }));
}

pub async fn a_key_is_recognised_among_concurrent_requests(harness: &dyn Harness) {
    let store = harness.store();
    let batch = [
        request_with_key("key", 1, vec![event()]),
        request_with_key("key", 1, vec![event()]),
        request_with_key("key", 2, vec![event_with_id("other")]),
        request_with_key("another", 2, vec![event_with_id("other")]),
    ];
    let results = enqueue_concurrently(&store, &batch).await;
    let first = results[0].clone().expect("a fresh key is accepted");
    assert!(!first.replayed);
    assert_eq!(results[1], Ok(EnqueueResponse { replayed: true, ..first }));
    assert_eq!(results[2], Err(StoreError::IdempotencyConflict { key: "key".to_owned() }));
    assert!(results[3].is_ok(), "the refused request left nothing: {results:?}");
    assert_eq!(claim_all(&store).await.len(), 2);
}

pub async fn concurrent_first_uses_of_one_key_make_one_event(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for round in 0..10 {
        let request = request_with_key(&format!("key-{round}"), 1, vec![event()]);
        let (one, other) = join(try_enqueue(&store, request.clone()), try_enqueue(&second, request)).await;
        let one = one.expect("the request is either the first or a replay");
        let other = other.expect("the request is either the first or a replay");
        assert_eq!(one.receipts, other.receipts);
        assert_ne!(one.replayed, other.replayed, "exactly one request is the first");
    }
    assert_eq!(claim_all(&store).await.len(), 10);
}

pub async fn concurrent_uses_of_one_key_with_two_bodies_make_one_event(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for round in 0..10 {
        let key = format!("key-{round}");
        let with_body = |body| request_with_key(&key, body, vec![event()]);
        let (one, other) = join(try_enqueue(&store, with_body(1)), try_enqueue(&second, with_body(2))).await;
        let conflict = Err(StoreError::IdempotencyConflict { key: key.clone() });
        assert!(one == conflict || other == conflict, "one request is refused: {one:?}, {other:?}");
        assert!(one.is_ok() || other.is_ok(), "the other is accepted: {one:?}, {other:?}");
    }
    assert_eq!(claim_all(&store).await.len(), 10);
}
