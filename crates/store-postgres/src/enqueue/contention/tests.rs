use std::sync::atomic::Ordering;
use std::time::Duration;

use super::*;
use crate::enqueue::fake_writer::{FakeWriter, LOCK_WAIT, request, spawn_enqueue};

/// Returns a function that reads the time since the test started, by the paused clock.
#[expect(clippy::disallowed_methods, reason = "reads the paused clock")]
fn stopwatch() -> impl Fn() -> Duration {
    let start = tokio::time::Instant::now();
    move || tokio::time::Instant::now() - start
}

#[tokio::test(start_paused = true)]
async fn only_requests_that_need_a_locked_resource_wait() {
    let (writer, elapsed) = (FakeWriter::locked(), stopwatch());
    let queue = writer.start();
    let first = spawn_enqueue(&queue, request("locked", 0));
    let beside = spawn_enqueue(&queue, request("up", 0));
    beside.await.unwrap().unwrap();
    assert_eq!(elapsed(), LOCK_WAIT, "a request of the same batch waits once, until the lock is detected");

    let second = spawn_enqueue(&queue, request("locked", 1));
    spawn_enqueue(&queue, request("up", 1)).await.unwrap().unwrap();
    assert_eq!(elapsed(), LOCK_WAIT, "the lock is known, and no other request waits for it");

    writer.locked.store(false, Ordering::Relaxed);
    assert!(first.await.unwrap().is_ok() && second.await.unwrap().is_ok());
    assert_eq!(writer.stored_events(), 4, "each request was stored once");
    // Requests to the destination join batches again.
    let third = spawn_enqueue(&queue, request("locked", 2));
    let beside = spawn_enqueue(&queue, request("up", 2));
    assert!(third.await.unwrap().is_ok() && beside.await.unwrap().is_ok());
    assert_eq!(writer.batches().last(), Some(&2), "they share a batch");
}

#[tokio::test(start_paused = true)]
async fn requests_that_stay_blocked_fail_together_with_those_for_the_same_resource() {
    let (writer, elapsed) = (FakeWriter::locked(), stopwatch());
    let queue = writer.start();
    let waiting: Vec<_> = (0..20).map(|number| spawn_enqueue(&queue, request("locked", number))).collect();
    for waiting in waiting {
        let Err(error @ StoreError::Busy { .. }) = waiting.await.unwrap() else {
            panic!("a request that stays blocked is not stored");
        };
        let message = error.to_string();
        assert!(
            message.contains("open transaction holds") && message.contains("nothing was stored"),
            "{message}"
        );
    }
    assert!(elapsed() < Duration::from_secs(10), "took {:?}", elapsed());
    assert_eq!(writer.stored_events(), 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_requests_get_their_results_before_the_task_ends() {
    let writer = FakeWriter::locked();
    let queue = writer.start();
    let waiting = spawn_enqueue(&queue, request("locked", 0));
    spawn_enqueue(&queue, request("up", 0)).await.unwrap().unwrap();
    drop(queue);
    writer.locked.store(false, Ordering::Relaxed);
    assert!(waiting.await.unwrap().is_ok());
}
