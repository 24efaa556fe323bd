//! Fixture and builders for the tests of this crate.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    AttemptResult, ClaimId, EventId, Lease, NewEvent, NewEventSpec, Outcome, RandomDraw, RetryPolicy,
    Timestamp, Transition, WorkerId,
};
use posthaste_store::{ClaimRequest, EnqueueRequest, FixedSlots, PaceSlots, Settlement, Store as _};
use posthaste_store_memory::ManualClock;
use posthaste_store_sqlite::rusqlite::Connection;
use posthaste_store_sqlite::{Options, SqliteStore};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

pub(crate) const HOUR: Duration = Duration::from_secs(3_600);

/// A store on a temporary database file, with a clock that the test moves.
pub(crate) struct Fixture {
    pub(crate) store: SqliteStore,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) path: PathBuf,
    pub(crate) _directory: tempfile::TempDir,
}

impl Fixture {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        let store = SqliteStore::open(&path, clock.clone(), StdRng::seed_from_u64(1), options).unwrap();
        Self { store, clock, path, _directory: directory }
    }

    /// Opens a plain connection to the file, as another program would.
    pub(crate) fn sql(&self) -> Connection {
        connection(&self.path)
    }
}

pub(crate) fn connection(path: &Path) -> Connection {
    let db = Connection::open(path).unwrap();
    db.busy_timeout(Duration::from_secs(5)).unwrap();
    db
}

pub(crate) fn spec(url: &str) -> NewEventSpec {
    NewEventSpec {
        destination_url: url.to_owned(),
        event_type: "invoice.paid".to_owned(),
        payload: Bytes::from_static(br#"{"amount": 1.0}"#),
        ..NewEventSpec::default()
    }
}

pub(crate) fn new_event(spec: NewEventSpec) -> NewEvent {
    NewEvent::accept(spec, 1 << 20, 6).unwrap()
}

pub(crate) fn event() -> NewEvent {
    new_event(spec("https://receiver.example/hook"))
}

pub(crate) async fn enqueue(store: &SqliteStore, events: Vec<NewEvent>) -> Vec<EventId> {
    let request = EnqueueRequest::new(events);
    let enqueued = store.enqueue(request).await.unwrap();
    enqueued.receipts.into_iter().map(|receipt| receipt.event_id).collect()
}

pub(crate) fn worker() -> WorkerId {
    WorkerId::new("worker-a").unwrap()
}

/// Builds a claim request with a new id and limits that no test reaches.
pub(crate) fn claim() -> ClaimRequest {
    static CLAIMS: AtomicU64 = AtomicU64::new(0);
    let number = u128::from(std::process::id()) << 64 | u128::from(CLAIMS.fetch_add(1, Ordering::Relaxed));
    ClaimRequest {
        id: ClaimId::random(number.to_be_bytes()),
        owner: worker(),
        lease: Duration::from_secs(60),
        limit: 100,
        retries_max: 100,
        slots: FixedSlots::per_destination(100).share(),
        pace_slots: PaceSlots::UNLIMITED,
        payload_bytes_max: usize::MAX,
        event_payload_bytes_max: None,
        inline_payload_bytes_max: usize::MAX,
        abandon_after: 5,
        resumed_within: Duration::from_secs(60),
    }
}

pub(crate) fn settlement(lease: &Lease, status: u16) -> Settlement {
    let result =
        AttemptResult { outcome: Outcome::response(status, None, b""), duration: Duration::from_secs(1) };
    let transition = Transition::from_attempt(lease, result, &RetryPolicy::default(), RandomDraw(0));
    Settlement { transition: Arc::new(transition), ended_ago: Duration::ZERO }
}

/// Claims all due events, settles each with this HTTP status and returns their number.
pub(crate) async fn attempt_all(store: &SqliteStore, status: u16) -> usize {
    let leases = store.claim(&claim()).await.unwrap().leases;
    let batch: Vec<Settlement> = leases.iter().map(|lease| settlement(lease, status)).collect();
    store.settle(&worker(), &batch).await.unwrap().len()
}

/// Runs a program of the system and returns what it prints.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot start {command:?}: {error}; `make need-packages` installs what the tests need")
    });
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}
