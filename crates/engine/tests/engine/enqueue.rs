//! Producers that share commits.

use std::sync::Arc;

use crate::stage::{Call, Stage, event, secs};
use bytes::Bytes;
use posthaste_domain::{NewEvent, NewEventSpec};
use posthaste_engine::enqueuer;
use posthaste_store::{EnqueueRequest, Idempotency, StoreError};

fn request(host: &str, number: usize) -> EnqueueRequest {
    EnqueueRequest { events: vec![event(host, number)], idempotency: None }
}

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_commits_and_get_their_own_answers() {
    let stage = Stage::set();
    let (front, behind) = enqueuer(Arc::clone(&stage.store) as _);
    tokio::spawn(behind);
    let requests = (0..300).map(|number| {
        let front = front.clone();
        async move { front.enqueue(request("up", number)).await }
    });
    let answers = futures_util::future::join_all(requests).await;
    for (number, answer) in answers.into_iter().enumerate() {
        assert_eq!(answer.unwrap().receipts[0].event_id.as_str(), format!("up-{number}"));
    }
    assert!(stage.door().calls(Call::Enqueue) <= 3, "{} commits", stage.door().calls(Call::Enqueue));
}

#[tokio::test(start_paused = true)]
async fn alone_a_request_does_not_wait() {
    let stage = Stage::set();
    let (front, behind) = enqueuer(Arc::clone(&stage.store) as _);
    tokio::spawn(behind);
    let began_at = stage.monotonic();
    front.enqueue(request("up", 0)).await.unwrap();
    assert_eq!(stage.monotonic(), began_at, "no time passed");
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_does_not_fail_its_neighbours() {
    let stage = Stage::set();
    let (front, behind) = enqueuer(Arc::clone(&stage.store) as _);
    tokio::spawn(behind);
    let (first, again, other) = tokio::join!(
        front.enqueue(request("up", 0)),
        front.enqueue(request("up", 0)),
        front.enqueue(request("up", 1))
    );
    assert!(first.is_ok() && other.is_ok());
    assert!(matches!(again, Err(StoreError::EventIdTaken { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_producer_that_was_not_answered_asks_again_and_makes_one_event() {
    let stage = Stage::set();
    let (front, behind) = enqueuer(Arc::clone(&stage.store) as _);
    tokio::spawn(behind);
    let idempotency = Idempotency { key: "k".into(), fingerprint: [1; 32], keep: secs(60) };
    let request = EnqueueRequest { idempotency: Some(idempotency), ..request("up", 0) };
    stage.door().fail(&[Call::Enqueue]);
    assert!(front.enqueue(request.clone()).await.is_err_and(|error| error.is_transient()));
    stage.door().heal();
    let first = front.enqueue(request.clone()).await.unwrap();
    let second = front.enqueue(request).await.unwrap();
    assert!(!first.replayed && second.replayed);
    assert_eq!(first.receipts, second.receipts);
}

#[tokio::test(start_paused = true)]
async fn after_shutdown_producers_are_told_so() {
    let stage = Stage::set();
    let (front, behind) = enqueuer(Arc::clone(&stage.store) as _);
    drop(behind);
    let refused = front.enqueue(request("up", 0)).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("shutting down")));
}

#[tokio::test(start_paused = true)]
async fn what_a_producer_that_has_gone_away_sent_is_neither_kept_nor_stored() {
    let stage = Stage::set();
    let (front, behind) = enqueuer(Arc::clone(&stage.store) as _);
    let payload = Bytes::from(vec![b'x'; 64]);
    let (waiting, sent) = (front.clone(), request_with("gone", &payload));
    let waiting = tokio::spawn(async move { waiting.enqueue(sent).await });
    tokio::task::yield_now().await;
    assert!(!payload.is_unique(), "it waits in the queue");
    waiting.abort();
    let _ = waiting.await;
    assert!(payload.is_unique(), "nobody waits for it any more");
    tokio::spawn(behind);
    assert_eq!(front.enqueue(request_with("stays", &payload)).await.unwrap().receipts.len(), 1);
    assert_eq!(stage.memory.with_state(|state| state.rows.len()), 1);
}

fn request_with(event_id: &str, payload: &Bytes) -> EnqueueRequest {
    let spec = NewEventSpec {
        destination_url: "https://up.test/".into(),
        event_type: "test".into(),
        event_id: Some(event_id.into()),
        payload: payload.clone(),
        ..NewEventSpec::default()
    };
    EnqueueRequest {
        events: vec![NewEvent::accept(spec, 1_024, 5).expect("a valid event")],
        idempotency: None,
    }
}
