//! Puts events into a state by claiming and settling them directly on the store, as a worker would.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use posthaste_domain::{
    AttemptResult, ClaimId, Lease, Outcome, RandomDraw, RetryPolicy, RetryPolicySpec, Transition, WorkerId,
};
use posthaste_store::{ClaimRequest, FixedSlots, PaceSlots, SettleResult, Settlement, Store};
use serde_json::{Value, json};

use super::TestApi;

/// A minimal event to enqueue.
pub(crate) fn event() -> Value {
    event_to("https://receiver.example/hook")
}

pub(crate) fn event_to(url: &str) -> Value {
    json!({ "destination_url": url, "event_type": "invoice.paid", "payload": { "amount": 1 } })
}

/// The outcome of a response with this status and an empty body.
pub(crate) fn http_status(status: u16) -> Outcome {
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
        slots: FixedSlots::per_destination(1_000).share(),
        pace_slots: PaceSlots::UNLIMITED,
        payload_bytes_max: usize::MAX,
        event_payload_bytes_max: None,
        inline_payload_bytes_max: usize::MAX,
        abandon_after: 5,
        resumed_within: Duration::from_secs(60),
    }
}

pub(crate) async fn claim_all(store: &Arc<dyn Store>) -> Vec<Lease> {
    store.claim(&claim()).await.unwrap().leases
}

pub(crate) async fn settle(store: &Arc<dyn Store>, lease: &Lease, outcome: Outcome) {
    settle_with_policy(&policy_with_budget(0), store, lease, outcome).await;
}

/// The default retry policy without jitter, with a retry budget.
pub(crate) fn policy_with_budget(budget: u32) -> RetryPolicy {
    let policy = RetryPolicySpec { jitter_bps: Some(0), budget, ..RetryPolicySpec::exponential() };
    RetryPolicy::new(policy).unwrap()
}

pub(crate) async fn settle_with_policy(
    policy: &RetryPolicy,
    store: &Arc<dyn Store>,
    lease: &Lease,
    outcome: Outcome,
) {
    let attempted = AttemptResult { outcome, duration: Duration::from_millis(128) };
    let transition = Arc::new(Transition::from_attempt(lease, attempted, policy, RandomDraw(0)));
    let settlement = Settlement { transition, ended_ago: Duration::ZERO };
    let settled = store.settle(&WorkerId::new("worker-a").unwrap(), &[settlement]).await.unwrap();
    assert_eq!(settled, [SettleResult::Applied]);
}

/// The public ids of a new application with one endpoint.
pub(crate) struct PublishedTo {
    pub(crate) app_id: String,
    pub(crate) endpoint_id: String,
}

impl TestApi {
    /// Creates an application with one endpoint, and publishes a message to it. Works once for each store.
    pub(crate) async fn publish_to_endpoint(&self) -> PublishedTo {
        let created = async |path: &str, body: Value, status: u16| {
            let response = self.post(&format!("/api/v1/app{path}"), body.to_string()).await;
            response.json(status)["id"].as_str().unwrap().to_owned()
        };
        let app_id = created("", json!({ "name": "shop" }), 201).await;
        let endpoint = json!({ "url": "https://shop.example/hook" });
        let endpoint_id = created(&format!("/{app_id}/endpoint"), endpoint, 201).await;
        let message = json!({ "eventType": "invoice.paid", "payload": { "amount": 1 } });
        created(&format!("/{app_id}/msg"), message, 202).await;
        PublishedTo { app_id, endpoint_id }
    }

    /// Delivers the only due event and returns its id.
    pub(crate) async fn deliver_published(&self) -> String {
        let leases = claim_all(&self.store).await;
        settle(&self.store, &leases[0], http_status(200)).await;
        leases[0].event_id.to_string()
    }

    /// Enqueues an event through the API and returns its id.
    pub(crate) async fn pending_event(&self, event: &Value) -> String {
        self.enqueue(event).await.json(202)["event_id"].as_str().unwrap().to_owned()
    }

    /// Enqueues an event and settles one attempt with `outcome`. No other event may be due.
    pub(crate) async fn attempted_event(&self, event: &Value, outcome: Outcome) -> String {
        let event_id = self.pending_event(event).await;
        let leases = claim_all(&self.store).await;
        assert_eq!(leases.len(), 1, "only {event_id} may be due");
        settle(&self.store, &leases[0], outcome).await;
        event_id
    }

    /// Enqueues and delivers an event.
    pub(crate) async fn delivered_event(&self, event: &Value) -> String {
        self.attempted_event(event, http_status(200)).await
    }

    /// Enqueues an event whose first attempt fails.
    pub(crate) async fn retrying_event(&self, event: &Value) -> String {
        self.attempted_event(event, Outcome::response(503, None, b"try later")).await
    }

    /// Enqueues and dead-letters an event. A 410 response does so at the first attempt.
    pub(crate) async fn dead_lettered_event(&self, event: &Value) -> String {
        self.attempted_event(event, http_status(410)).await
    }
}
