//! Repeating a request whose answer was lost.

use futures_util::future::join;
use posthaste_store::{Enqueued, StoreError};

use crate::Harness;
use crate::fixture::*;

pub async fn a_replay_is_answered_as_the_first_time(harness: &dyn Harness) {
    let store = harness.store();
    let request = keyed("key", 1, vec![event()]);
    let first = answer(&store, request.clone()).await.expect("a fresh key is accepted");
    assert!(!first.replayed);
    let replay = answer(&store, request).await.expect("a replay is no error");
    assert_eq!(replay, Enqueued { replayed: true, ..first });
    assert_eq!(claim_all(&store).await.len(), 1);
}

pub async fn a_replay_is_seen_through_another_handle(harness: &dyn Harness) {
    let request = keyed("key", 1, vec![event()]);
    let first = answer(&harness.store(), request.clone()).await.expect("a fresh key is accepted");
    let replay = answer(&harness.second_handle(), request).await.expect("a replay is no error");
    assert_eq!(replay, Enqueued { replayed: true, ..first });
}

pub async fn a_replay_tells_of_the_first_time_even_after_delivery(harness: &dyn Harness) {
    let store = harness.store();
    let request = keyed("key", 1, vec![event()]);
    let first = answer(&store, request.clone()).await.expect("a fresh key is accepted");
    apply(&store, &claim_one(&store).await, delivers()).await;
    let replay = answer(&store, request).await.expect("a replay is no error");
    assert_eq!(replay, Enqueued { replayed: true, ..first });
    assert_nothing_claimable(&store).await;
}

pub async fn a_key_covers_every_event_of_its_request(harness: &dyn Harness) {
    let store = harness.store();
    let events = vec![event_named("z"), event(), event_named("a")];
    let first = answer(&store, keyed("key", 1, events.clone())).await.expect("a fresh key is accepted");
    assert_eq!(first.receipts.len(), 3);
    let replay = answer(&store, keyed("key", 1, events)).await.expect("a replay is no error");
    assert_eq!(replay, Enqueued { replayed: true, ..first });
    assert_eq!(claim_all(&store).await.len(), 3);
}

pub async fn a_key_with_another_body_is_a_conflict(harness: &dyn Harness) {
    let store = harness.store();
    let first = answer(&store, keyed("key", 1, vec![event()])).await.expect("a fresh key is accepted");
    let conflict = answer(&store, keyed("key", 2, vec![event_named("other")])).await;
    assert_eq!(conflict, Err(StoreError::IdempotencyConflict { key: "key".to_owned() }));
    assert!(!is_stored(&store, &id("other")).await);
    let replay = answer(&store, keyed("key", 1, vec![event()])).await;
    assert_eq!(replay, Ok(Enqueued { replayed: true, ..first }), "the key still stands for its first use");
}

pub async fn other_keys_and_no_keys_are_other_requests(harness: &dyn Harness) {
    let store = harness.store();
    let requests = [
        keyed("key", 1, vec![event()]),
        keyed("Key", 1, vec![event()]),
        request(vec![event()]),
        request(vec![event()]),
    ];
    for request in requests {
        let answer = answer(&store, request).await.expect("the request is accepted");
        assert!(!answer.replayed);
    }
    assert_eq!(claim_all(&store).await.len(), 4);
}

pub async fn a_key_is_remembered_until_its_time_is_over(harness: &dyn Harness) {
    let store = harness.store();
    let request = keyed("key", 1, vec![event()]);
    let first = answer(&store, request.clone()).await.expect("a fresh key is accepted");
    harness.advance(KEY_KEPT / 2).await;
    let replay = answer(&store, request).await.expect("a replay is no error");
    assert!(replay.replayed);
    assert_eq!(ids(&replay), ids(&first));
}

pub async fn a_key_is_free_again_when_its_time_is_over(harness: &dyn Harness) {
    let store = harness.store();
    let first = answer(&store, keyed("key", 1, vec![event()])).await.expect("a fresh key is accepted");
    harness.advance(KEY_KEPT + MINUTE).await;
    let other = answer(&store, keyed("key", 2, vec![event()])).await.expect("the key is free again");
    assert!(!other.replayed);
    assert_ne!(ids(&other), ids(&first));
    let replay = answer(&store, keyed("key", 2, vec![event()])).await;
    assert_eq!(replay, Ok(Enqueued { replayed: true, ..other }), "the key stands for its latest use");
}

pub async fn a_refused_request_does_not_use_up_its_key(harness: &dyn Harness) {
    let store = harness.store();
    enqueue(&store, event_named("taken")).await;
    let refused = answer(&store, keyed("key", 1, vec![event_named("taken")])).await;
    assert_eq!(refused, Err(StoreError::EventIdTaken { event_id: id("taken") }));
    let retried = answer(&store, keyed("key", 2, vec![event_named("fresh")])).await;
    assert!(!retried.expect("the key was not used up").replayed);
}

pub async fn a_replay_is_recognised_before_its_event_ids_are_found_taken(harness: &dyn Harness) {
    let store = harness.store();
    let request = keyed("key", 1, vec![event_named("chosen")]);
    let first = answer(&store, request.clone()).await.expect("a fresh key is accepted");
    assert_eq!(answer(&store, request).await, Ok(Enqueued { replayed: true, ..first }));
}

pub async fn a_key_is_recognised_within_one_batch(harness: &dyn Harness) {
    let store = harness.store();
    let batch = [
        keyed("key", 1, vec![event()]),
        keyed("key", 1, vec![event()]),
        keyed("key", 2, vec![event_named("other")]),
        keyed("another", 2, vec![event_named("other")]),
    ];
    let answers = answers(&store, &batch).await;
    let first = answers[0].clone().expect("a fresh key is accepted");
    assert!(!first.replayed);
    assert_eq!(answers[1], Ok(Enqueued { replayed: true, ..first }));
    assert_eq!(answers[2], Err(StoreError::IdempotencyConflict { key: "key".to_owned() }));
    assert!(answers[3].is_ok(), "the refused request left nothing: {answers:?}");
    assert_eq!(claim_all(&store).await.len(), 2);
}

pub async fn concurrent_first_uses_of_one_key_make_one_event(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for round in 0..10 {
        let request = keyed(&format!("key-{round}"), 1, vec![event()]);
        let (one, other) = join(answer(&store, request.clone()), answer(&second, request)).await;
        let one = one.expect("either first or a replay");
        let other = other.expect("either first or a replay");
        assert_eq!(one.receipts, other.receipts);
        assert_ne!(one.replayed, other.replayed, "one of them was first");
    }
    assert_eq!(claim_all(&store).await.len(), 10);
}

pub async fn concurrent_uses_of_one_key_with_two_bodies_make_one_event(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for round in 0..10 {
        let key = format!("key-{round}");
        let with_body = |body| keyed(&key, body, vec![event()]);
        let (one, other) = join(answer(&store, with_body(1)), answer(&second, with_body(2))).await;
        let conflict = Err(StoreError::IdempotencyConflict { key: key.clone() });
        assert!(one == conflict || other == conflict, "one is refused: {one:?}, {other:?}");
        assert!(one.is_ok() || other.is_ok(), "and one is not: {one:?}, {other:?}");
    }
    assert_eq!(claim_all(&store).await.len(), 10);
}
