//! What the tests here are made of: events, claims, settlements, plain connections, and waiting for a fact.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    Attempted, ClaimId, EventId, Lease, NewEvent, NewEventSpec, Outcome, RetryPolicy, RetryPolicySpec, Roll,
    Transition, WorkerId,
};
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{ClaimRequest, EnqueueRequest, Settled, Settlement, Store};
use posthaste_store_postgres::tokio_postgres::{AsyncMessage, Client, NoTls};
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use tokio::sync::mpsc;

pub(crate) const URL: &str = "https://receiver.example/hook";
pub(crate) const LEASE: Duration = Duration::from_secs(60);
pub(crate) const MINUTE: Duration = Duration::from_secs(60);
pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// Longer than anything takes that works.
pub(crate) const SOON: Duration = Duration::from_secs(30);

/// Nothing waits for the bound: it makes what never comes a failure instead of a hang.
#[expect(clippy::disallowed_methods, reason = "bounds a wait for a server; nothing is scheduled by it")]
pub(crate) async fn within<T>(bound: Duration, what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(bound, future).await {
        Ok(answer) => answer,
        Err(_) => panic!("not within {bound:?}: {what}"),
    }
}

pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    within(SOON, what, future).await
}

/// Asks until the answer is yes. Whoever asks a server is paced by its answers.
pub(crate) async fn until(bound: Duration, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let asking = async {
        while !is_so().await {
            tokio::task::yield_now().await;
        }
    };
    within(bound, what, asking).await;
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

pub(crate) fn named(event_id: &str) -> NewEventSpec {
    NewEventSpec { event_id: Some(event_id.to_owned()), ..spec() }
}

pub(crate) fn accepted(spec: NewEventSpec) -> NewEvent {
    NewEvent::accept(spec, 1 << 20, 5).expect("tests enqueue acceptable events")
}

pub(crate) fn request(specs: Vec<NewEventSpec>) -> EnqueueRequest {
    EnqueueRequest { events: specs.into_iter().map(accepted).collect(), idempotency: None }
}

pub(crate) async fn enqueue_all(store: &dyn Store, specs: Vec<NewEventSpec>) -> Vec<EventId> {
    let mut answers = store.enqueue(&[request(specs)]).await.expect("the store is up");
    let enqueued = answers.remove(0).expect("the events are accepted");
    enqueued.receipts.into_iter().map(|receipt| receipt.event_id).collect()
}

pub(crate) async fn enqueue(store: &dyn Store, spec: NewEventSpec) -> EventId {
    enqueue_all(store, vec![spec]).await.remove(0)
}

/// A claim of its own with room for everything.
pub(crate) fn claim_by(owner: &str) -> ClaimRequest {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    ClaimRequest {
        id: ClaimId::random(u128::from(CLAIMS.fetch_add(1, Ordering::Relaxed)).to_be_bytes()),
        owner: worker(owner),
        lease: LEASE,
        limit: 1_000,
        retries_max: 1_000,
        per_destination: 1_000,
        free_slots: BTreeMap::new(),
        abandon_after: 5,
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

pub(crate) fn ids(leases: &[Lease]) -> Vec<&str> {
    leases.iter().map(|lease| lease.event_id.as_str()).collect()
}

/// The contract without jitter.
fn policy() -> RetryPolicy {
    let spec = RetryPolicySpec { jitter_bps: Some(0), ..RetryPolicySpec::exponential() };
    RetryPolicy::new(spec).expect("the contract without jitter is a valid policy")
}

/// What a receiver's answer leads to.
pub(crate) fn settlement(lease: &Lease, http_status: u16) -> Settlement {
    let outcome = Outcome::response(http_status, None, b"");
    let attempted = Attempted { outcome, duration: Duration::from_millis(20) };
    let transition = Arc::new(Transition::of(lease, attempted, &policy(), Roll(0)));
    Settlement { transition, ended_ago: Duration::ZERO }
}

pub(crate) async fn settle(store: &dyn Store, leases: &[Lease], http_status: u16) -> Vec<Settled> {
    let batch: Vec<Settlement> = leases.iter().map(|lease| settlement(lease, http_status)).collect();
    store.settle(&worker("worker-a"), &batch).await.expect("the store is up")
}

/// Through one attempt; nothing else may be claimable meanwhile.
pub(crate) async fn attempted(store: &dyn Store, spec: NewEventSpec, http_status: u16) -> EventId {
    let event_id = enqueue(store, spec).await;
    let lease = claim_one(store).await;
    assert_eq!(settle(store, &[lease], http_status).await, [Settled::Applied]);
    event_id
}

pub(crate) fn config(url: &str) -> PostgresConfig {
    PostgresConfig::from_url(url).expect("the URL is a server's own")
}

pub(crate) async fn open(url: &str) -> PostgresStore {
    PostgresStore::open(config(url)).await.expect("the server is up")
}

/// Somebody else's connection.
pub(crate) async fn client(url: &str) -> Client {
    let (client, connection) =
        posthaste_store_postgres::tokio_postgres::connect(url, NoTls).await.expect("the server is up");
    tokio::spawn(connection);
    client
}

/// What a channel carries, heard by somebody else.
pub(crate) struct Listener {
    _client: Client,
    heard: mpsc::UnboundedReceiver<String>,
}

impl Listener {
    pub(crate) async fn on(url: &str, channel: &str) -> Self {
        let (client, mut connection) =
            posthaste_store_postgres::tokio_postgres::connect(url, NoTls).await.expect("the server is up");
        let (hear, heard) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(notification) = message {
                    let _ = hear.send(notification.payload().to_owned());
                }
            }
        });
        client.batch_execute(&format!("LISTEN \"{channel}\"")).await.expect("anybody may listen");
        Self { _client: client, heard }
    }

    pub(crate) async fn next(&mut self) -> String {
        soon("a notification", self.heard.recv()).await.expect("the listener lives")
    }

    /// What has been heard by now.
    pub(crate) fn heard(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }
}

/// What a query of one row and one column says, in words.
pub(crate) fn say(server: &PostgresServer, database: &str, sql: &str) -> String {
    server.psql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
}
