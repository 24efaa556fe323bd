//! Taking the time, and working through what is due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use posthaste_domain::DestinationId;
use posthaste_store::{Settled, Store};
use tokio::sync::mpsc;

use crate::load::{BATCH, Worker};

#[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

pub(crate) fn rate(count: usize, took: Duration) -> f64 {
    count as f64 / took.as_secs_f64()
}

/// Claims and settles `count` events, the next claim beside the settle of the last, as a worker does.
pub(crate) async fn drain(
    store: &Arc<dyn Store>,
    count: usize,
    retry_every: Option<u32>,
    seed: u64,
) -> Duration {
    let begun = now();
    let (sender, mut claimed) = mpsc::channel(2);
    let claiming = {
        let store = Arc::clone(store);
        tokio::spawn(async move {
            let mut worker = Worker::new(seed);
            let mut taken = 0;
            while taken < count {
                let request = worker.claim(BATCH.min(count - taken), &[]);
                let leases = store.claim(&request).await.expect("the store is up").leases;
                assert!(!leases.is_empty(), "nothing is left after {taken} of {count}");
                taken += leases.len();
                sender.send(leases).await.expect("the settler waits for more");
            }
        })
    };
    let mut worker = Worker::new(seed + 1);
    while let Some(leases) = claimed.recv().await {
        let settlements = worker.settlements(&leases, retry_every);
        let settled = store.settle(&worker.id, &settlements).await.expect("the store is up");
        assert!(settled.iter().all(|settled| *settled == Settled::Applied), "every lease holds");
    }
    claiming.await.expect("claiming does not panic");
    now() - begun
}

/// Claims as events trickle in, and how long each claim takes, in ascending order.
pub(crate) async fn trickle(
    store: &Arc<dyn Store>,
    rounds: usize,
    to: usize,
    excluded: &[DestinationId],
) -> Vec<Duration> {
    let mut worker = Worker::new(99);
    let mut took = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let event = crate::load::event(to + round % 10);
        store.enqueue(&[crate::load::request(vec![event])]).await.expect("the store is up")[0]
            .as_ref()
            .expect("the event is stored");
        let request = worker.claim(100, excluded);
        let begun = now();
        let leases = store.claim(&request).await.expect("the store is up").leases;
        took.push(now() - begun);
        assert_eq!(leases.len(), 1, "what has just come is claimed");
        let settlements = worker.settlements(&leases, None);
        store.settle(&worker.id, &settlements).await.expect("the store is up");
    }
    took.sort_unstable();
    took
}

pub(crate) fn percentile(sorted: &[Duration], percent: usize) -> f64 {
    sorted[(sorted.len() * percent / 100).min(sorted.len() - 1)].as_secs_f64() * 1_000.0
}
