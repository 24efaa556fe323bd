//! What cases are made of: events to enqueue, claims to make, outcomes to settle, and ways to look.
//!
//! The durations are far apart, so that a slow machine does not change what a case means.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    Attempted, ClaimId, EventId, Lease, NewEvent, NewEventSpec, Outcome, RetryPolicy, RetryPolicySpec, Roll,
    Timestamp, Transition, WorkerId,
};
use posthaste_store::{
    ClaimRequest, Claimed, EnqueueRequest, Enqueued, EventDetail, EventView, HeldLease, Idempotency,
    NoticeCursor, PublishedNotice, Settled, Settlement, Store, StoreError, Wakeups,
};

use crate::Harness;

pub(crate) type Handle = Arc<dyn Store>;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// How long the leases of [`claim_by`] last.
pub(crate) const LEASE: Duration = MINUTE;
/// Beyond any lease of [`claim_by`].
pub(crate) const PAST_LEASE: Duration = Duration::from_secs(2 * 60);
/// The first retry delay of [`policy`]; later ones double.
pub(crate) const RETRY_DELAY: Duration = MINUTE;
/// How long a key of [`keyed`] is remembered.
pub(crate) const KEY_KEPT: Duration = HOUR;
/// How long every attempt takes: long enough to be told from what passes by itself.
pub(crate) const ATTEMPT_TOOK: Duration = Duration::from_secs(20);

/// What may pass between two calls of a case on a busy machine.
const TOLERANCE: Duration = Duration::from_secs(15);

pub(crate) fn event() -> NewEventSpec {
    event_to("https://receiver.example/hook")
}

pub(crate) fn event_to(url: &str) -> NewEventSpec {
    NewEventSpec {
        destination_url: url.to_owned(),
        event_type: "invoice.paid".to_owned(),
        payload: Bytes::from_static(br#"{"amount": 1.0}"#),
        ..NewEventSpec::default()
    }
}

/// An event whose producer chose its id.
pub(crate) fn event_named(event_id: &str) -> NewEventSpec {
    NewEventSpec { event_id: Some(event_id.to_owned()), ..event() }
}

pub(crate) fn id(event_id: &str) -> EventId {
    EventId::new(event_id).expect("cases use valid ids")
}

pub(crate) fn request(events: Vec<NewEventSpec>) -> EnqueueRequest {
    let accept = |spec| {
        NewEvent::accept(spec, 1 << 20, policy().max_attempts()).expect("cases enqueue acceptable events")
    };
    EnqueueRequest { events: events.into_iter().map(accept).collect(), idempotency: None }
}

/// A request under an idempotency key; `body` stands for the digest of what the producer sent.
pub(crate) fn keyed(key: &str, body: u8, events: Vec<NewEventSpec>) -> EnqueueRequest {
    let idempotency = Idempotency { key: key.to_owned(), fingerprint: [body; 32], keep: KEY_KEPT };
    EnqueueRequest { idempotency: Some(idempotency), ..request(events) }
}

pub(crate) async fn answers(store: &Handle, batch: &[EnqueueRequest]) -> Vec<Result<Enqueued, StoreError>> {
    let answers = store.enqueue(batch).await.expect("the store is up");
    assert_eq!(answers.len(), batch.len(), "one answer per request");
    answers
}

pub(crate) async fn answer(store: &Handle, request: EnqueueRequest) -> Result<Enqueued, StoreError> {
    answers(store, &[request]).await.pop().expect("one answer per request")
}

pub(crate) async fn enqueue_all(store: &Handle, events: Vec<NewEventSpec>) -> Vec<EventId> {
    ids(&answer(store, request(events)).await.expect("the events are accepted"))
}

pub(crate) async fn enqueue(store: &Handle, event: NewEventSpec) -> EventId {
    enqueue_all(store, vec![event]).await.pop().expect("one receipt per event")
}

pub(crate) fn ids(enqueued: &Enqueued) -> Vec<EventId> {
    enqueued.receipts.iter().map(|receipt| receipt.event_id.clone()).collect()
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).expect("cases use valid worker ids")
}

/// An id that no other claim of the process has.
fn claim_id() -> ClaimId {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    ClaimId::random(u128::from(CLAIMS.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// A claim of its own with room for everything; cases narrow what they examine. To ask again is to pass the same
/// request again.
pub(crate) fn claim_by(owner: &str) -> ClaimRequest {
    ClaimRequest {
        id: claim_id(),
        owner: worker(owner),
        lease: LEASE,
        limit: 100,
        retries_max: 100,
        per_destination: 100,
        free_slots: BTreeMap::new(),
        abandon_after: 5,
    }
}

pub(crate) async fn claim(store: &Handle, request: &ClaimRequest) -> Claimed {
    store.claim(request).await.expect("the store is up")
}

/// What the leases prove, in no particular order.
pub(crate) fn held(leases: &[Lease]) -> Vec<HeldLease> {
    let mut held: Vec<HeldLease> = leases.iter().map(HeldLease::from).collect();
    held.sort();
    held
}

/// The leases that a claim brings, when there is nothing for it to abandon.
pub(crate) async fn leases(store: &Handle, request: &ClaimRequest) -> Vec<Lease> {
    let claimed = claim(store, request).await;
    assert_eq!(claimed.abandoned, [], "nothing here has lost too many leases");
    claimed.leases
}

/// The one lease that a claim brings.
pub(crate) async fn only_lease(store: &Handle, request: &ClaimRequest) -> Lease {
    let mut leases = leases(store, request).await;
    assert_eq!(leases.len(), 1, "{leases:?}");
    leases.remove(0)
}

/// Everything claimable, leased to `worker-a`.
pub(crate) async fn claim_all(store: &Handle) -> Vec<Lease> {
    claim(store, &claim_by("worker-a")).await.leases
}

/// The one event that is claimable.
pub(crate) async fn claim_one(store: &Handle) -> Lease {
    let mut leases = claim_all(store).await;
    assert_eq!(leases.len(), 1, "exactly one event is claimable: {leases:?}");
    leases.remove(0)
}

pub(crate) async fn assert_nothing_claimable(store: &Handle) {
    let claimed = claim(store, &claim_by("worker-b")).await;
    assert!(claimed.leases.is_empty(), "nothing is claimable: {claimed:?}");
}

/// The one claimable event through the hands of two workers: the lease that expired, and the one that replaced it.
pub(crate) async fn taken_over(harness: &dyn Harness, store: &Handle) -> (Lease, Lease) {
    let lost = claim_one(store).await;
    harness.advance(PAST_LEASE).await;
    let taker = claim(store, &claim_by("worker-b")).await.leases.pop().expect("the lease has expired");
    (lost, taker)
}

pub(crate) async fn release(store: &Handle, leases: &[&Lease]) {
    let held: Vec<HeldLease> = leases.iter().copied().map(HeldLease::from).collect();
    store.release(&held).await.expect("the store is up");
}

/// The contract without jitter, so that every delay is known.
pub(crate) fn policy() -> RetryPolicy {
    let spec = RetryPolicySpec { jitter_bps: Some(0), ..RetryPolicySpec::exponential() };
    RetryPolicy::new(spec).expect("the contract without jitter is a valid policy")
}

pub(crate) fn delivers() -> Outcome {
    status(200)
}

pub(crate) fn status(status: u16) -> Outcome {
    Outcome::response(status, None, b"")
}

/// A receiver that asks to be left alone.
pub(crate) fn asks_for(pause: Duration) -> Outcome {
    Outcome::response(503, Some(pause), b"")
}

pub(crate) fn settlement(lease: &Lease, outcome: Outcome) -> Settlement {
    settlement_under(&policy(), lease, outcome)
}

pub(crate) fn settlement_under(policy: &RetryPolicy, lease: &Lease, outcome: Outcome) -> Settlement {
    let attempted = Attempted { outcome, duration: ATTEMPT_TOOK };
    let transition = Arc::new(Transition::of(lease, attempted, policy, Roll(0)));
    Settlement { transition, ended_ago: Duration::ZERO }
}

pub(crate) async fn settle_all(store: &Handle, batch: &[Settlement]) -> Vec<Settled> {
    store.settle(&worker("worker-a"), batch).await.expect("the store is up")
}

/// What becomes of one settlement.
pub(crate) async fn settle(store: &Handle, settlement: &Settlement) -> Settled {
    let settled = settle_all(store, std::slice::from_ref(settlement)).await;
    assert_eq!(settled.len(), 1, "one answer per settlement");
    settled[0]
}

/// Writes an outcome under a lease that holds.
pub(crate) async fn apply(store: &Handle, lease: &Lease, outcome: Outcome) {
    assert_eq!(settle(store, &settlement(lease, outcome)).await, Settled::Applied);
}

/// Takes a new event through one attempt; nothing else may be claimable meanwhile.
pub(crate) async fn attempted(store: &Handle, event: NewEventSpec, outcome: Outcome) -> EventId {
    let event_id = enqueue(store, event).await;
    apply(store, &claim_one(store).await, outcome).await;
    event_id
}

pub(crate) async fn delivered(store: &Handle, event: NewEventSpec) -> EventId {
    attempted(store, event, delivers()).await
}

pub(crate) async fn retrying(store: &Handle, event: NewEventSpec) -> EventId {
    attempted(store, event, status(500)).await
}

/// 410 is the shortest way into the dead-letter queue.
pub(crate) async fn dead_lettered(store: &Handle, event: NewEventSpec) -> EventId {
    attempted(store, event, status(410)).await
}

pub(crate) async fn detail(store: &Handle, event_id: &EventId) -> EventDetail {
    store.event(event_id).await.expect("the event exists")
}

pub(crate) async fn view(store: &Handle, event_id: &EventId) -> EventView {
    detail(store, event_id).await.event
}

pub(crate) async fn is_stored(store: &Handle, event_id: &EventId) -> bool {
    match store.event(event_id).await {
        Ok(_) => true,
        Err(StoreError::EventNotFound { .. }) => false,
        Err(error) => panic!("the store is up: {error}"),
    }
}

pub(crate) async fn end_of_log(store: &Handle) -> NoticeCursor {
    let page = store.notices(None, 100).await.expect("the store is up");
    assert_eq!(page.notices, [], "without a cursor there is only the end of the log");
    page.cursor
}

/// What was published after a cursor, at most a hundred.
pub(crate) async fn published(store: &Handle, after: NoticeCursor) -> Vec<PublishedNotice> {
    store.notices(Some(after), 100).await.expect("the store is up").notices
}

#[expect(
    clippy::disallowed_methods,
    reason = "nothing waits for this bound; it makes a wake-up that never comes a failure instead of a hang"
)]
pub(crate) async fn assert_woken(wakeups: &mut Wakeups) {
    tokio::time::timeout(2 * TOLERANCE, wakeups.woken()).await.expect("whoever waits is woken");
}

/// For moments that were written by different calls, between which time may have passed.
#[track_caller]
pub(crate) fn assert_apart(earlier: Timestamp, later: Timestamp, expected: Duration) {
    let apart = later.since(earlier);
    assert!(
        apart.abs_diff(expected) <= TOLERANCE && later.after(TOLERANCE) >= earlier,
        "{earlier:?} and {later:?} should lie {expected:?} apart"
    );
}

/// For a moment that is now, when nothing was moved since `other`.
#[track_caller]
pub(crate) fn assert_about(moment: Timestamp, other: Timestamp) {
    assert_apart(moment.min(other), moment.max(other), Duration::ZERO);
}
