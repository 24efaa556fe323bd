//! Timed runs of claims and settles.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_domain::DestinationId;
use posthaste_store::{SettleResult, Store};
use tokio::sync::mpsc;

use crate::load::{BATCH, Worker};

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Returns a count per second.
pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Claims and settles `count` events and returns how long it took. Each claim overlaps with the settle before it, as in a
/// worker.
pub(crate) async fn drain(
    store: &Arc<dyn Store>,
    count: usize,
    retry_every: Option<u32>,
    seed: u64,
) -> Duration {
    let started = now();
    let (sender, mut claimed) = mpsc::channel(2);
    let claiming = {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut worker = Worker::new(seed);
            let mut taken = 0;
            while taken < count {
                let request = worker.claim_request(BATCH.min(count - taken), &[]);
                let leases = store.claim(&request).await.expect("the store is up").leases;
                assert!(!leases.is_empty(), "the store ran out of due events after {taken} of {count}");
                taken += leases.len();
                sender.send(leases).await.expect("the settling loop is still receiving");
            }
        })
    };
    let mut worker = Worker::new(seed + 1);
    while let Some(leases) = claimed.recv().await {
        let settlements = worker.settlements(&leases, retry_every);
        let settled = store.settle(&worker.id, &settlements).await.expect("the store is up");
        assert!(settled.iter().all(|settled| *settled == SettleResult::Applied), "every lease is still held");
    }
    claiming.await.expect("the claiming task does not panic");
    now() - started
}

/// Enqueues and claims single events and returns the durations of the claims, in ascending order.
pub(crate) async fn claim_singles(
    store: &Arc<dyn Store>,
    rounds: usize,
    first_destination: usize,
    excluded: &[DestinationId],
) -> Vec<Duration> {
    let mut worker = Worker::new(99);
    let mut durations = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let event = crate::load::event(first_destination + round % 10);
        store.enqueue(crate::load::request(vec![event])).await.expect("the event is stored");
        let request = worker.claim_request(100, excluded);
        let started = now();
        let leases = store.claim(&request).await.expect("the store is up").leases;
        durations.push(now() - started);
        assert_eq!(leases.len(), 1, "the claim returns the new event and no other");
        let settlements = worker.settlements(&leases, None);
        store.settle(&worker.id, &settlements).await.expect("the store is up");
    }
    durations.sort_unstable();
    durations
}

/// Returns a percentile of sorted durations, in milliseconds.
pub(crate) fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)].as_secs_f64() * 1_000.0
}
