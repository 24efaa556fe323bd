use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste_store::Idempotency;
use tokio::time::Duration;

use super::*;
use crate::enqueue::fake_writer::{FakeWriter, request, request_with_payload, spawn_enqueue};

#[tokio::test(start_paused = true)]
async fn concurrent_requests_share_commits_and_get_their_own_responses() {
    let writer = FakeWriter::new();
    let queue = writer.start();
    let results = join_all((0..300).map(|number| queue.enqueue(request("up", number)))).await;
    for (number, result) in results.into_iter().enumerate() {
        assert_eq!(result.unwrap().receipts[0].event_id.as_str(), format!("up-{number}"));
    }
    assert!(writer.batches().len() <= 3, "{:?}", writer.batches());
}

#[tokio::test(start_paused = true)]
#[expect(clippy::disallowed_methods, reason = "reads the paused clock")]
async fn a_request_that_is_alone_does_not_wait() {
    let queue = FakeWriter::new().start();
    let start = tokio::time::Instant::now();
    queue.enqueue(request("up", 0)).await.unwrap();
    assert_eq!(tokio::time::Instant::now() - start, Duration::ZERO, "no time passed");
}

#[tokio::test(start_paused = true)]
async fn a_full_batch_leaves_further_requests_to_the_next() {
    let writer = FakeWriter::new();
    let queue = writer.start();
    let events = |from: usize| (from..from + 700).flat_map(|number| request("up", number).events).collect();
    let large = |from| EnqueueRequest::new(events(from));
    let results = join_all([0, 1_000, 2_000, 3_000].map(|from| queue.enqueue(large(from)))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert_eq!(writer.batches(), [2, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_when_its_payloads_are_large() {
    let writer = FakeWriter::new();
    let queue = writer.start();
    let payload = Bytes::from(vec![b'x'; BATCH_BYTES / 4]);
    let large = |number: usize| request_with_payload("up", &number.to_string(), &payload);
    let results = join_all((0..8).map(|number| queue.enqueue(large(number)))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    assert!(writer.batches().iter().all(|requests| *requests <= 4), "{:?}", writer.batches());
}

#[tokio::test(start_paused = true)]
async fn full_batches_are_written_in_parallel() {
    let writer = FakeWriter::new();
    let queue = writer.start();
    let full = |host: &str| {
        let events = (0..BATCH_EVENTS).flat_map(|number| request(host, number).events).collect();
        EnqueueRequest::new(events)
    };
    let results = join_all(["a", "b"].map(|host| queue.enqueue(full(host)))).await;
    assert!(results.iter().all(Result::is_ok));
    assert_eq!(writer.concurrent_batches_max(), 2);
}

#[tokio::test(start_paused = true)]
async fn small_batches_are_written_one_after_the_other() {
    let writer = FakeWriter::new();
    let queue = writer.start();
    let mut enqueues = Vec::new();
    for number in 0..20 {
        enqueues.push(spawn_enqueue(&queue, request("up", number)));
        tokio::task::yield_now().await;
    }
    for enqueue in enqueues {
        enqueue.await.unwrap().unwrap();
    }
    assert!(writer.batches().len() > 1, "{:?}", writer.batches());
    assert_eq!(writer.concurrent_batches_max(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_request_does_not_fail_the_others_of_its_batch() {
    let queue = FakeWriter::new().start();
    let (first, again, other) = tokio::join!(
        queue.enqueue(request("up", 0)),
        queue.enqueue(request("up", 0)),
        queue.enqueue(request("up", 1))
    );
    assert!(first.is_ok() && other.is_ok());
    assert!(matches!(again, Err(StoreError::EventIdTaken { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_failed_request_repeated_under_its_key_stores_one_event() {
    let writer = FakeWriter::new();
    let queue = writer.start();
    let keep_for = Duration::from_secs(60);
    let idempotency = Idempotency { key: "k".into(), fingerprint: [1; 32], keep_for };
    let request = EnqueueRequest { idempotency: Some(idempotency), ..request("up", 0) };
    writer.failing.store(true, Ordering::Relaxed);
    assert!(queue.enqueue(request.clone()).await.is_err_and(|error| error.is_transient()));
    writer.failing.store(false, Ordering::Relaxed);
    let first = queue.enqueue(request.clone()).await.unwrap();
    let second = queue.enqueue(request).await.unwrap();
    assert!(!first.replayed && second.replayed);
    assert_eq!(first.receipts, second.receipts);
}

#[tokio::test(start_paused = true)]
async fn a_panic_costs_its_own_batch_and_the_queue_goes_on() {
    let writer = FakeWriter::new();
    let queue = writer.start();
    writer.panic_once.store(true, Ordering::Relaxed);
    let failed = queue.enqueue(request("up", 0)).await;
    assert!(matches!(failed, Err(StoreError::Rejected { .. })), "{failed:?}");
    queue.enqueue(request("up", 0)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn after_shutdown_callers_get_an_error() {
    let (queue, receiver) = EnqueueQueue::new();
    drop(receiver);
    let refused = queue.enqueue(request("up", 0)).await;
    assert!(refused.is_err_and(|error| error.to_string().contains("shutting down")));
}

#[tokio::test(start_paused = true)]
async fn a_call_returns_although_the_queue_never_gets_to_it() {
    let (queue, _never_received) = EnqueueQueue::new();
    let payload = Bytes::from(vec![b'x'; 64]);
    let timed_out = queue.enqueue(request_with_payload("up", "late", &payload)).await;
    assert!(timed_out.is_err_and(|error| error.is_transient()));
    assert!(payload.is_unique(), "the request is withdrawn");
}

#[tokio::test(start_paused = true)]
async fn the_request_of_a_caller_that_has_gone_away_is_neither_kept_nor_stored() {
    let writer = FakeWriter::new();
    let (queue, receiver) = EnqueueQueue::new();
    let queue = Arc::new(queue);
    let payload = Bytes::from(vec![b'x'; 64]);
    let gone = spawn_enqueue(&queue, request_with_payload("up", "gone", &payload));
    tokio::task::yield_now().await;
    assert!(!payload.is_unique(), "the request is queued");
    gone.abort();
    let _ = gone.await;
    assert!(payload.is_unique(), "the request is withdrawn");
    tokio::spawn(run(Arc::clone(&writer) as _, receiver));
    assert_eq!(queue.enqueue(request_with_payload("up", "stays", &payload)).await.unwrap().receipts.len(), 1);
    assert_eq!(writer.stored_events(), 1);
}
