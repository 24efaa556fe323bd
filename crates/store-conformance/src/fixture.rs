//! Building blocks of cases: new events, claims, settlements, queries and assertions.
//!
//! The durations differ widely, so that a slow machine does not change the result of a case.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste_domain::{
    AttemptResult, ClaimId, DestinationId, EventId, Lease, NewEvent, NewEventSpec, Outcome, RandomDraw,
    RetryPolicy, RetryPolicySpec, Timestamp, Transition, WorkerId,
};
use posthaste_store::{
    CircuitReport, ClaimRequest, ClaimResponse, DestinationStatus, EnqueueRequest, EnqueueResponse,
    EventDetail, EventView, FixedSlots, Idempotency, LeaseRef, NoticeCursor, OpenCircuitReport, PaceSlots,
    PauseRequest, PublishedNotice, SettleResult, Settlement, Store, StoreError, Wakeups,
};

use crate::Harness;

pub(crate) type Handle = Arc<dyn Store>;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Duration of the leases of [`claim_by`].
pub(crate) const LEASE: Duration = MINUTE;
/// Long enough for the leases of [`claim_by`] to expire.
pub(crate) const PAST_LEASE: Duration = Duration::from_secs(2 * 60);
/// The first retry delay of [`policy`]; later ones double.
pub(crate) const RETRY_DELAY: Duration = MINUTE;
/// How long the store keeps a key of [`request_with_key`].
pub(crate) const KEY_LIFETIME: Duration = HOUR;
/// Duration of every attempt: long enough to differ clearly from the real time that a case takes.
pub(crate) const ATTEMPT_DURATION: Duration = Duration::from_secs(20);

/// Upper bound of the real time between two calls of a case, on a busy machine.
const TOLERANCE: Duration = Duration::from_secs(15);

/// A new event with default fields.
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

/// A new event with an id chosen by its producer.
pub(crate) fn event_with_id(event_id: &str) -> NewEventSpec {
    NewEventSpec { event_id: Some(event_id.to_owned()), ..event() }
}

pub(crate) fn id(event_id: &str) -> EventId {
    EventId::new(event_id).expect("cases use valid ids")
}

pub(crate) fn request(events: Vec<NewEventSpec>) -> EnqueueRequest {
    let accept =
        |spec| NewEvent::accept(spec, 1 << 20, policy().max_attempts()).expect("cases enqueue valid events");
    EnqueueRequest::new(events.into_iter().map(accept).collect())
}

/// A request with an idempotency key. `body` is the fingerprint of the request body.
pub(crate) fn request_with_key(key: &str, body: u8, events: Vec<NewEventSpec>) -> EnqueueRequest {
    let idempotency = Idempotency { key: key.to_owned(), fingerprint: [body; 32], keep_for: KEY_LIFETIME };
    EnqueueRequest { idempotency: Some(idempotency), ..request(events) }
}

/// Enqueues several requests at the same time, in order, and returns their results in that order.
pub(crate) async fn enqueue_concurrently(
    store: &Handle,
    requests: &[EnqueueRequest],
) -> Vec<Result<EnqueueResponse, StoreError>> {
    join_all(requests.iter().map(|request| store.enqueue(request.clone()))).await
}

/// Enqueues one request and returns its result.
pub(crate) async fn try_enqueue(
    store: &Handle,
    request: EnqueueRequest,
) -> Result<EnqueueResponse, StoreError> {
    store.enqueue(request).await
}

pub(crate) async fn enqueue_all(store: &Handle, events: Vec<NewEventSpec>) -> Vec<EventId> {
    ids(&try_enqueue(store, request(events)).await.expect("the events are accepted"))
}

pub(crate) async fn enqueue(store: &Handle, event: NewEventSpec) -> EventId {
    enqueue_all(store, vec![event]).await.pop().expect("one receipt per event")
}

pub(crate) fn ids(response: &EnqueueResponse) -> Vec<EventId> {
    response.receipts.iter().map(|receipt| receipt.event_id.clone()).collect()
}

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).expect("cases use valid worker ids")
}

/// A claim id that is unique in this process.
fn claim_id() -> ClaimId {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    ClaimId::random(u128::from(CLAIMS.fetch_add(1, Ordering::Relaxed)).to_be_bytes())
}

/// A new claim whose limits cover every event of a case. A case lowers the limit that it tests. To repeat a claim, pass
/// the same request again.
pub(crate) fn claim_by(owner: &str) -> ClaimRequest {
    ClaimRequest {
        id: claim_id(),
        owner: worker(owner),
        lease: LEASE,
        limit: 100,
        retries_max: 100,
        slots: FixedSlots::per_destination(100).share(),
        pace_slots: PaceSlots::UNLIMITED,
        payload_bytes_max: usize::MAX,
        event_payload_bytes_max: None,
        inline_payload_bytes_max: usize::MAX,
        abandon_after: 5,
        resumed_within: MINUTE,
    }
}

pub(crate) async fn claim(store: &Handle, request: &ClaimRequest) -> ClaimResponse {
    store.claim(request).await.expect("the store is up")
}

/// References to the leases, sorted, so that two sets of leases can be compared.
pub(crate) fn lease_refs(leases: &[Lease]) -> Vec<LeaseRef> {
    let mut refs: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
    refs.sort();
    refs
}

/// Claims and returns the leases. The claim must abandon no event.
pub(crate) async fn leases(store: &Handle, request: &ClaimRequest) -> Vec<Lease> {
    let claimed = claim(store, request).await;
    assert_eq!(claimed.abandoned, [], "no event has lost too many leases");
    claimed.leases
}

/// Claims and returns the only lease.
pub(crate) async fn only_lease(store: &Handle, request: &ClaimRequest) -> Lease {
    let mut leases = leases(store, request).await;
    assert_eq!(leases.len(), 1, "{leases:?}");
    leases.remove(0)
}

/// Claims every claimable event for `worker-a`.
pub(crate) async fn claim_all(store: &Handle) -> Vec<Lease> {
    claim(store, &claim_by("worker-a")).await.leases
}

/// Claims the only claimable event for `worker-a`.
pub(crate) async fn claim_one(store: &Handle) -> Lease {
    let mut leases = claim_all(store).await;
    assert_eq!(leases.len(), 1, "exactly one event is claimable: {leases:?}");
    leases.remove(0)
}

pub(crate) async fn assert_nothing_claimable(store: &Handle) {
    let claimed = claim(store, &claim_by("worker-b")).await;
    assert!(claimed.leases.is_empty(), "no event is claimable: {claimed:?}");
}

/// Lets `worker-b` take over the only claimable event. Returns the expired lease and the lease that replaced it.
pub(crate) async fn take_over(harness: &dyn Harness, store: &Handle) -> (Lease, Lease) {
    let lost = claim_one(store).await;
    harness.advance(PAST_LEASE).await;
    let taker = claim(store, &claim_by("worker-b")).await.leases.pop().expect("the lease has expired");
    (lost, taker)
}

pub(crate) async fn release(store: &Handle, leases: &[&Lease]) {
    let refs: Vec<LeaseRef> = leases.iter().copied().map(LeaseRef::from).collect();
    store.release(&refs).await.expect("the store is up");
}

/// The default retry policy without jitter, so that every delay is exact.
pub(crate) fn policy() -> RetryPolicy {
    let spec = RetryPolicySpec { jitter_bps: Some(0), ..RetryPolicySpec::exponential() };
    RetryPolicy::new(spec).expect("the default policy without jitter is valid")
}

pub(crate) fn success() -> Outcome {
    status(200)
}

pub(crate) fn status(status: u16) -> Outcome {
    Outcome::response(status, None, b"")
}

/// The outcome of a receiver that requests a pause.
pub(crate) fn requests_pause(pause: Duration) -> Outcome {
    Outcome::response(503, Some(pause), b"")
}

pub(crate) fn settlement(lease: &Lease, outcome: Outcome) -> Settlement {
    settlement_under(&policy(), lease, outcome)
}

pub(crate) fn settlement_under(policy: &RetryPolicy, lease: &Lease, outcome: Outcome) -> Settlement {
    let result = AttemptResult { outcome, duration: ATTEMPT_DURATION };
    let transition = Arc::new(Transition::from_attempt(lease, result, policy, RandomDraw(0)));
    Settlement { transition, ended_ago: Duration::ZERO }
}

pub(crate) async fn settle_all(store: &Handle, batch: &[Settlement]) -> Vec<SettleResult> {
    store.settle(&worker("worker-a"), batch).await.expect("the store is up")
}

/// Settles one attempt and returns the result.
pub(crate) async fn settle(store: &Handle, settlement: &Settlement) -> SettleResult {
    let settled = settle_all(store, std::slice::from_ref(settlement)).await;
    assert_eq!(settled.len(), 1, "one result per settlement");
    settled[0]
}

/// Settles one attempt under a valid lease.
pub(crate) async fn apply(store: &Handle, lease: &Lease, outcome: Outcome) {
    assert_eq!(settle(store, &settlement(lease, outcome)).await, SettleResult::Applied);
}

/// Enqueues an event and makes one attempt. No other event may be claimable meanwhile.
pub(crate) async fn enqueue_and_attempt(store: &Handle, event: NewEventSpec, outcome: Outcome) -> EventId {
    let event_id = enqueue(store, event).await;
    apply(store, &claim_one(store).await, outcome).await;
    event_id
}

pub(crate) async fn enqueue_delivered(store: &Handle, event: NewEventSpec) -> EventId {
    enqueue_and_attempt(store, event, success()).await
}

pub(crate) async fn enqueue_retrying(store: &Handle, event: NewEventSpec) -> EventId {
    enqueue_and_attempt(store, event, status(500)).await
}

/// Enqueues an event that fails with status 410, which dead-letters it at the first attempt.
pub(crate) async fn enqueue_dead_lettered(store: &Handle, event: NewEventSpec) -> EventId {
    enqueue_and_attempt(store, event, status(410)).await
}

pub(crate) async fn detail(store: &Handle, event_id: &EventId) -> EventDetail {
    store.event(event_id).await.expect("the event exists")
}

pub(crate) async fn view(store: &Handle, event_id: &EventId) -> EventView {
    detail(store, event_id).await.event
}

pub(crate) const HERE: &str = "https://here.example/";
pub(crate) const THERE: &str = "https://there.example/";

/// Enqueues an event, which stays pending and unclaimed, and returns its destination.
pub(crate) async fn add_destination(store: &Handle, url: &str) -> DestinationId {
    let event_id = enqueue(store, event_to(url)).await;
    view(store, &event_id).await.destination_id
}

pub(crate) async fn destination_status(store: &Handle, id: DestinationId) -> DestinationStatus {
    store.destination_status(id).await.expect("the destination exists")
}

/// A pause with an end, by the operator ann.
pub(crate) fn pause_for(duration: Duration) -> PauseRequest {
    PauseRequest::new("ann", Some(duration), None)
}

/// How long the circuits of [`open_circuit`] have been open.
pub(crate) const OPEN_FOR: Duration = Duration::from_secs(2 * 60);
/// Time until the next probe of [`open_circuit`].
pub(crate) const NEXT_PROBE_IN: Duration = Duration::from_secs(3 * 60);

/// A worker's report of an open circuit, valid for an hour.
pub(crate) fn open_circuit(worker_name: &str, destination: DestinationId) -> CircuitReport {
    let open = OpenCircuitReport {
        open_for: OPEN_FOR,
        next_probe_in: NEXT_PROBE_IN,
        last_error: Some("HTTP 500".to_owned()),
        expires_in: HOUR,
    };
    CircuitReport { open: Some(open), ..closed_circuit(worker_name, destination) }
}

/// A worker's report that a circuit has closed.
pub(crate) fn closed_circuit(worker_name: &str, destination: DestinationId) -> CircuitReport {
    CircuitReport { worker: worker(worker_name), destination, open: None }
}

/// Asserts that late results have changed only the history of their event. It shows each of their leases once, as not applied.
pub(crate) async fn assert_only_recorded(store: &Handle, before: &EventDetail, late: &[&Lease]) {
    let EventDetail { event, history, audit } = detail(store, &before.event.event_id).await;
    assert_eq!((&event, &audit), (&before.event, &before.audit), "a late result is not applied");
    let (known, new) = history.split_at(before.history.len());
    assert_eq!(known, before.history);
    let recorded: Vec<_> = new.iter().map(|attempt| (attempt.token, attempt.applied)).collect();
    let expected: Vec<_> = late.iter().map(|lease| (lease.token, false)).collect();
    assert_eq!(recorded, expected);
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
    assert_eq!(page.notices, [], "a query without a cursor returns no notices");
    page.cursor
}

/// The notices published after a cursor, at most a hundred.
pub(crate) async fn published_after(store: &Handle, after: NoticeCursor) -> Vec<PublishedNotice> {
    store.notices(Some(after), 100).await.expect("the store is up").notices
}

pub(crate) async fn assert_woken(wakeups: &mut Wakeups) {
    within_tolerance("the waiting worker is woken", wakeups.wait()).await;
}

/// Waits for a fact that a store brings about by itself.
#[expect(
    clippy::disallowed_methods,
    reason = "the test never waits for this timeout unless it fails; it turns a missing fact into a failure"
)]
pub(crate) async fn within_tolerance(what: &str, fact: impl Future<Output = ()>) {
    tokio::time::timeout(2 * TOLERANCE, fact).await.expect(what);
}

/// Asserts the time between two timestamps. Tolerates the real time that passed between the calls that wrote them.
#[track_caller]
pub(crate) fn assert_time_between(earlier: Timestamp, later: Timestamp, expected: Duration) {
    let between = later.since(earlier);
    assert!(
        between.abs_diff(expected) <= TOLERANCE && later.after(TOLERANCE) >= earlier,
        "the time between {earlier:?} and {later:?} should be {expected:?}"
    );
}

/// Asserts that two timestamps are the same, apart from the real time that passed between the calls that wrote them.
#[track_caller]
pub(crate) fn assert_same_time(one: Timestamp, other: Timestamp) {
    assert_time_between(one.min(other), one.max(other), Duration::ZERO);
}
