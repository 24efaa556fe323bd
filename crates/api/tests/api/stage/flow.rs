//! What happens to events between two requests: the worker's part, played through the port.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_domain::{
    Attempted, ClaimId, Lease, Outcome, RetryPolicy, RetryPolicySpec, Roll, Transition, WorkerId,
};
use posthaste_store::{ClaimRequest, Settled, Settlement, Store};
use serde_json::{Value, json};

use super::Stage;

/// An event's id, as it was answered.
pub(crate) type Event = String;

/// An event that asks for nothing.
pub(crate) fn event() -> Value {
    event_to("https://receiver.example/hook")
}

pub(crate) fn event_to(url: &str) -> Value {
    json!({ "destination_url": url, "event_type": "invoice.paid", "payload": { "amount": 1 } })
}

pub(crate) fn status(status: u16) -> Outcome {
    Outcome::response(status, None, b"")
}

fn claim() -> ClaimRequest {
    static CLAIMS: AtomicU64 = AtomicU64::new(1);
    let number = CLAIMS.fetch_add(1, Ordering::Relaxed);
    ClaimRequest {
        id: ClaimId::random(u128::from(number).to_be_bytes()),
        owner: WorkerId::new("worker-a").unwrap(),
        lease: Duration::from_secs(60),
        limit: 1_000,
        retries_max: 1_000,
        per_destination: 1_000,
        free_slots: BTreeMap::new(),
        abandon_after: 5,
    }
}

pub(crate) async fn claim_all(store: &Arc<dyn Store>) -> Vec<Lease> {
    store.claim(&claim()).await.unwrap().leases
}

pub(crate) async fn settle(store: &Arc<dyn Store>, lease: &Lease, outcome: Outcome) {
    settle_under(&budget(0), store, lease, outcome).await;
}

/// The policy of the contract, without jitter.
pub(crate) fn budget(budget: u32) -> RetryPolicy {
    let policy = RetryPolicySpec { jitter_bps: Some(0), budget, ..RetryPolicySpec::exponential() };
    RetryPolicy::new(policy).unwrap()
}

pub(crate) async fn settle_under(
    policy: &RetryPolicy,
    store: &Arc<dyn Store>,
    lease: &Lease,
    outcome: Outcome,
) {
    let attempted = Attempted { outcome, duration: Duration::from_millis(128) };
    let transition = Arc::new(Transition::of(lease, attempted, policy, Roll(0)));
    let settlement = Settlement { transition, ended_ago: Duration::ZERO };
    let settled = store.settle(&WorkerId::new("worker-a").unwrap(), &[settlement]).await.unwrap();
    assert_eq!(settled, [Settled::Applied]);
}

impl Stage {
    /// Enqueued through the API.
    pub(crate) async fn pending(&self, event: &Value) -> Event {
        self.enqueue(event).await.json(202)["event_id"].as_str().unwrap().to_owned()
    }

    /// Enqueued and through one attempt; nothing else may be due meanwhile.
    pub(crate) async fn attempted(&self, event: &Value, outcome: Outcome) -> Event {
        let event_id = self.pending(event).await;
        let leases = claim_all(&self.store).await;
        assert_eq!(leases.len(), 1, "only {event_id} is due");
        settle(&self.store, &leases[0], outcome).await;
        event_id
    }

    pub(crate) async fn delivered(&self, event: &Value) -> Event {
        self.attempted(event, status(200)).await
    }

    pub(crate) async fn retrying(&self, event: &Value) -> Event {
        self.attempted(event, Outcome::response(503, None, b"try later")).await
    }

    /// 410 is the shortest way into the dead-letter queue.
    pub(crate) async fn dead_lettered(&self, event: &Value) -> Event {
        self.attempted(event, status(410)).await
    }
}
