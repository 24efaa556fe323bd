//! Timed runs of claims and settles.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::DestinationId;
use posthaste_store::{SettleResult, Store};
use tokio::sync::mpsc;

use crate::clock::now;
use crate::store::load::{Worker, event, request};

/// Claims and settles `count` events in batches and returns how long it took. Each claim overlaps with the settle before it, as in a
/// worker.
pub(crate) async fn drain(
    store: &Arc<dyn Store>,
    count: usize,
    batch: usize,
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
                let request = worker.claim_request(batch.min(count - taken), &[]);
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

/// Enqueues and claims single events and returns the durations of the claims in milliseconds.
pub(crate) async fn claim_singles(
    store: &Arc<dyn Store>,
    rounds: usize,
    first_destination: usize,
    excluded: &[DestinationId],
) -> Vec<f64> {
    let mut worker = Worker::new(99);
    let mut durations = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let event = event(first_destination + round % 10);
        store.enqueue(request(vec![event])).await.expect("the event is stored");
        let request = worker.claim_request(100, excluded);
        let started = now();
        let leases = store.claim(&request).await.expect("the store is up").leases;
        durations.push((now() - started).as_secs_f64() * 1_000.0);
        assert_eq!(leases.len(), 1, "the claim returns the new event and no other");
        let settlements = worker.settlements(&leases, None);
        store.settle(&worker.id, &settlements).await.expect("the store is up");
    }
    durations
}
