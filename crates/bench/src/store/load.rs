//! The load of the benchmark: events, claim requests and settlements.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    AttemptResult, ClaimId, DestinationId, Lease, NewEvent, NewEventSpec, Outcome, RandomDraw, RetryPolicy,
    RetryPolicySpec, Transition, WorkerId,
};
use posthaste_store::{ClaimRequest, EnqueueRequest, FixedSlots, PaceSlots, Settlement, Store};
use rand::RngExt as _;
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::clock::now;
use crate::payload::PAYLOAD_BYTES;

/// Number of destinations of most parts.
pub(crate) const DESTINATIONS: usize = 100;

/// Builds an event for a numbered destination.
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
    EnqueueRequest::new(events)
}

/// Enqueues `count` events, spread over `destinations`, a thousand per call and two calls at a time.
pub(crate) async fn preload(store: &Arc<dyn Store>, count: usize, destinations: std::ops::Range<usize>) {
    preload_within(store, count, destinations, Duration::MAX).await;
}

/// Enqueues events as [`preload`] does, until the time has passed. Returns how many were stored.
pub(crate) async fn preload_within(
    store: &Arc<dyn Store>,
    count: usize,
    destinations: std::ops::Range<usize>,
    time_max: Duration,
) -> usize {
    let started = now();
    let enqueue_range = |from: usize, to: usize| {
        let (store, destinations) = (Arc::clone(store), destinations.clone());
        tokio::spawn(async move {
            let (width, mut stored) = (destinations.len(), 0);
            for first in (from..to).step_by(1_000) {
                if now() - started > time_max {
                    break;
                }
                let events: Vec<NewEvent> =
                    (first..(first + 1_000).min(to)).map(|n| event(destinations.start + n % width)).collect();
                stored += events.len();
                store.enqueue(request(events)).await.expect("the events are stored");
            }
            stored
        })
    };
    let (first, second) = (enqueue_range(0, count / 2), enqueue_range(count / 2, count));
    let no_panic = "the enqueue task does not panic";
    first.await.expect(no_panic) + second.await.expect(no_panic)
}

/// A worker that claims and settles without sending.
pub(crate) struct Worker {
    pub(crate) id: WorkerId,
    random: StdRng,
    policy: RetryPolicy,
}

impl Worker {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            id: WorkerId::with_boot_id("bench", seed).expect("the name is valid"),
            random: StdRng::seed_from_u64(seed),
            policy: RetryPolicy::new(RetryPolicySpec::exponential())
                .expect("the default retry policy is valid"),
        }
    }

    /// Builds a claim that takes no event of the `excluded` destinations.
    pub(crate) fn claim_request(&mut self, limit: usize, excluded: &[DestinationId]) -> ClaimRequest {
        let slots = FixedSlots {
            destinations: excluded.iter().map(|id| (*id, 0)).collect(),
            ..FixedSlots::per_destination(20)
        };
        ClaimRequest {
            id: ClaimId::random(self.random.random()),
            owner: self.id.clone(),
            lease: Duration::from_secs(30),
            limit,
            retries_max: limit,
            slots: slots.share(),
            pace_slots: PaceSlots::UNLIMITED,
            payload_bytes_max: usize::MAX,
            event_payload_bytes_max: None,
            inline_payload_bytes_max: usize::MAX,
            abandon_after: 5,
            resumed_within: Duration::from_secs(60),
        }
    }

    /// Builds settlements of leases: delivered, except that one in `retry_every` on average must be retried.
    pub(crate) fn settlements(&mut self, leases: &[Lease], retry_every: Option<u32>) -> Vec<Settlement> {
        let settlement = |lease: &Lease| {
            let retry = retry_every.is_some_and(|every| self.random.random_range(0..every) == 0);
            let outcome = Outcome::response(if retry { 500 } else { 200 }, None, b"ok");
            let result = AttemptResult { outcome, duration: Duration::from_millis(20) };
            let transition = Transition::from_attempt(lease, result, &self.policy, RandomDraw(0));
            Settlement { transition: Arc::new(transition), ended_ago: Duration::ZERO }
        };
        leases.iter().map(settlement).collect()
    }
}
