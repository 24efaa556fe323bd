//! Events to store, claims to make, outcomes to settle.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    Attempted, ClaimId, DestinationId, Lease, NewEvent, NewEventSpec, Outcome, RetryPolicy, RetryPolicySpec,
    Roll, Transition, WorkerId,
};
use posthaste_store::{ClaimRequest, EnqueueRequest, Settlement, Store};
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub(crate) const PAYLOAD_BYTES: usize = 512;
pub(crate) const BATCH: usize = 500;

pub(crate) fn event(destination: usize) -> NewEvent {
    let spec = NewEventSpec {
        destination_url: format!("https://receiver-{destination}.example/hook"),
        event_type: "invoice.paid".to_owned(),
        payload: Bytes::from_static(&[b'x'; PAYLOAD_BYTES]),
        ..NewEventSpec::default()
    };
    NewEvent::accept(spec, PAYLOAD_BYTES, 6).expect("the event is acceptable")
}

pub(crate) fn request(events: Vec<NewEvent>) -> EnqueueRequest {
    EnqueueRequest { events, idempotency: None }
}

/// Stores `count` events over `destinations`, a thousand per call, two calls at a time.
pub(crate) async fn preload(store: &Arc<dyn Store>, count: usize, destinations: std::ops::Range<usize>) {
    let half = |from: usize, to: usize| {
        let (store, destinations) = (Arc::clone(store), destinations.clone());
        tokio::spawn(async move {
            let width = destinations.len();
            for first in (from..to).step_by(1_000) {
                let events =
                    (first..(first + 1_000).min(to)).map(|n| event(destinations.start + n % width)).collect();
                let answers = store.enqueue(&[request(events)]).await.expect("the store is up");
                assert!(answers[0].is_ok(), "{:?}", answers[0]);
            }
        })
    };
    let (first, second) = (half(0, count / 2), half(count / 2, count));
    first.await.expect("storing does not panic");
    second.await.expect("storing does not panic");
}

/// A worker as the stores see it.
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    random: StdRng,
    policy: RetryPolicy,
}

impl Worker {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            id: WorkerId::booted("bench", seed).expect("the name is valid"),
            random: StdRng::seed_from_u64(seed),
            policy: RetryPolicy::new(RetryPolicySpec::exponential()).expect("the contract is valid"),
        }
    }

    pub(crate) fn claim(&mut self, limit: usize, excluded: &[DestinationId]) -> ClaimRequest {
        let free_slots: BTreeMap<DestinationId, usize> = excluded.iter().map(|id| (*id, 0)).collect();
        ClaimRequest {
            id: ClaimId::random(self.random.random()),
            owner: self.id.clone(),
            lease: Duration::from_secs(30),
            limit,
            retries_max: limit,
            per_destination: 20,
            free_slots,
            abandon_after: 5,
        }
    }

    /// Delivered, but for every `retry_every`th, which has to be tried again.
    pub(crate) fn settlements(&mut self, leases: &[Lease], retry_every: Option<u32>) -> Vec<Settlement> {
        let settlement = |lease: &Lease| {
            let retry = retry_every.is_some_and(|every| self.random.random_range(0..every) == 0);
            let outcome = Outcome::response(if retry { 500 } else { 200 }, None, b"ok");
            let attempted = Attempted { outcome, duration: Duration::from_millis(20) };
            let transition = Transition::of(lease, attempted, &self.policy, Roll(0));
            Settlement { transition: Arc::new(transition), ended_ago: Duration::ZERO }
        };
        leases.iter().map(settlement).collect()
    }
}
