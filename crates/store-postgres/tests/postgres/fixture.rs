//! Fixtures of these tests: events, claims, settlements, plain connections, and waits for a condition.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    AttemptResult, ClaimId, EventId, Lease, NewEvent, NewEventSpec, Outcome, RandomDraw, RetryPolicy,
    RetryPolicySpec, Transition, WorkerId,
};
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ClaimRequest, EnqueueRequest, FixedSlots, PaceSlots, SettleResult, Settlement, Store};
use posthaste_store_postgres::tokio_postgres::{AsyncMessage, Client, NoTls};
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use tokio::sync::mpsc;

pub(crate) const URL: &str = "https://receiver.example/hook";
pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Longer than any step of a passing test takes.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(30);

/// Awaits a future, and fails the test if it takes longer than `bound`. A passing test never waits for the bound.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for a server; nothing is scheduled by it")]
pub(crate) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(bound, future).await {
        Ok(output) => output,
        Err(_) => panic!("not within {bound:?}: {what}"),
    }
}

/// Awaits a future within [`TIMEOUT`].
pub(crate) async fn expect_soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(TIMEOUT, what, future).await
}

/// Polls a condition until it holds. The condition queries a server, whose responses pace the loop.
pub(crate) async fn wait_until(bound: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let polling = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    within(bound, what, polling).await;
}

pub(crate) fn spec() -> NewEventSpec {
    spec_to(URL)
}

pub(crate) fn spec_to(url: &str) -> NewEventSpec {
    NewEventSpec {
        destination_url: url.to_owned(),
        event_type: "invoice.paid".to_owned(),
        payload: Bytes::from_static(br#"{"amount": 1.0}"#),
        ..NewEventSpec::default()
    }
}

pub(crate) fn spec_with_id(event_id: &str) -> NewEventSpec {
    NewEventSpec { event_id: Some(event_id.to_owned()), ..spec() }
}

pub(crate) fn new_event(spec: NewEventSpec) -> NewEvent {
    NewEvent::accept(spec, 1 << 20, 5).expect("tests enqueue acceptable events")
}

pub(crate) fn request(specs: Vec<NewEventSpec>) -> EnqueueRequest {
    EnqueueRequest::new(specs.into_iter().map(new_event).collect())
}

pub(crate) async fn enqueue_all(store: &dyn Store, specs: Vec<NewEventSpec>) -> Vec<EventId> {
    let response = store.enqueue(request(specs)).await.expect("the events are accepted");
    response.receipts.into_iter().map(|receipt| receipt.event_id).collect()
}

pub(crate) async fn enqueue(store: &dyn Store, spec: NewEventSpec) -> EventId {
    enqueue_all(store, vec![spec]).await.remove(0)
}

/// A new claim with slots for every event of a test.
pub(crate) fn claim_by(owner: &str) -> ClaimRequest {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    ClaimRequest {
        id: ClaimId::random(u128::from(CLAIMS.fetch_add(1, Ordering::Relaxed)).to_be_bytes()),
        owner: worker(owner),
        lease: LEASE,
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

pub(crate) fn worker(name: &str) -> WorkerId {
    WorkerId::new(name).expect("tests use valid worker ids")
}

pub(crate) async fn claim(store: &dyn Store) -> Vec<Lease> {
    store.claim(&claim_by("worker-a")).await.expect("the store is up").leases
}

pub(crate) async fn claim_one(store: &dyn Store) -> Lease {
    let mut leases = claim(store).await;
    assert_eq!(leases.len(), 1, "exactly one event is claimable: {leases:?}");
    leases.remove(0)
}

pub(crate) fn event_ids(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.event_id.as_str()).collect()
}

/// The default retry policy without jitter.
fn policy() -> RetryPolicy {
    let spec = RetryPolicySpec { jitter_bps: Some(0), ..RetryPolicySpec::exponential() };
    RetryPolicy::new(spec).expect("the default policy without jitter is valid")
}

/// The settlement of an attempt that got a response with this status.
pub(crate) fn settlement(lease: &Lease, http_status: u16) -> Settlement {
    let outcome = Outcome::response(http_status, None, b"");
    let attempted = AttemptResult { outcome, duration: Duration::from_millis(20) };
    let transition = Arc::new(Transition::from_attempt(lease, attempted, &policy(), RandomDraw(0)));
    Settlement { transition, ended_ago: Duration::ZERO }
}

pub(crate) async fn settle(store: &dyn Store, leases: &[Lease], http_status: u16) -> Vec<SettleResult> {
    let batch: Vec<Settlement> = leases.iter().map(|lease| settlement(lease, http_status)).collect();
    store.settle(&worker("worker-a"), &batch).await.expect("the store is up")
}

/// Enqueues an event and settles its first attempt. No other event may be claimable.
pub(crate) async fn enqueue_and_attempt(store: &dyn Store, spec: NewEventSpec, http_status: u16) -> EventId {
    let event_id = enqueue(store, spec).await;
    let lease = claim_one(store).await;
    assert_eq!(settle(store, &[lease], http_status).await, [SettleResult::Applied]);
    event_id
}

pub(crate) fn config(url: &str) -> PostgresConfig {
    PostgresConfig::from_url(url).expect("the URL is a server's own")
}

pub(crate) async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(config(url)).await.expect("the server is up")
}

/// A connection that is independent of the store.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) =
        posthaste_store_postgres::tokio_postgres::connect(url, NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

/// A connection that listens on a channel and collects the payloads of its notifications.
pub(crate) struct Listener {
    _client: Client,
    payloads: mpsc::UnboundedReceiver<String>,
}

impl Listener {
    pub(crate) async fn on(url: &str, channel: &str) -> Self {
        let (client, mut connection) =
            posthaste_store_postgres::tokio_postgres::connect(url, NoTls).await.expect("the server is up");
        let (sender, payloads) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _ = sender.send(notification.payload().to_owned());
                }
            }
        });
        client.batch_execute(&format!("LISTEN \"{channel}\"")).await.expect("the server is up");
        Self { _client: client, payloads }
    }

    pub(crate) async fn next(&mut self) -> String {
        expect_soon("a notification", self.payloads.recv()).await.expect("the listener is connected")
    }

    /// The notifications that have arrived and have not been read.
    pub(crate) fn received(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.payloads.try_recv().ok()).collect()
    }
}

/// Runs SQL and returns its rows as text.
pub(crate) fn query_text(server: &PostgresServer, database: &str, sql: &str) -> String {
    server.psql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}
