//! The write-ahead log: how much an event adds to it, how it grows behind a reader, and a disk that is full of it.

use std::env;
use std::process::Command;

use posthaste_store::{EnqueueLease, EnqueueRequest, Idempotency, Store as _};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock, system_rng};

use crate::support::{Fixture, HOUR, attempt_all, claim, enqueue, event, settlement, worker};

/// Length of a frame of the log: a page of 4 KiB and its header.
const FRAME_BYTES: u64 = 4_096 + 24;

/// Counts the pages that the log holds, every version of each.
fn count_frames(fixture: &Fixture) -> u64 {
    let log = fixture.path.with_extension("db-wal").metadata().unwrap().len();
    log.saturating_sub(32) / FRAME_BYTES
}

/// Returns a fixture whose tables are neither empty nor about to split a page.
async fn fixture_with_history() -> Fixture {
    let fixture = Fixture::new();
    enqueue(&fixture.store, vec![event(); 25]).await;
    attempt_all(&fixture.store, 200).await;
    fixture
}

/// Every page is a table or index that the event's row is in:
///
/// - enqueue: messages, events with their two indexes, the queue, the destination's queue, totals;
/// - claim: the queue, the destination's queue, claims;
/// - settle: the queue, claims, attempts, notices, totals.
#[tokio::test]
async fn a_single_event_writes_fifteen_pages_from_its_enqueue_to_its_delivery() {
    let fixture = fixture_with_history().await;
    for _ in 0..10 {
        let start = count_frames(&fixture);
        enqueue(&fixture.store, vec![event()]).await;
        let enqueued = count_frames(&fixture);
        let lease = fixture.store.claim(&claim()).await.unwrap().leases.remove(0);
        let claimed = count_frames(&fixture);
        fixture.store.settle(&worker(), &[settlement(&lease, 200)]).await.unwrap();
        let settled = count_frames(&fixture);
        assert_eq!([enqueued - start, claimed - enqueued, settled - claimed], [7, 3, 5]);
    }
}

/// An event that is stored leased enters no queue of its destination, and no claim writes it again.
#[tokio::test]
async fn an_event_that_is_stored_leased_writes_twelve_pages() {
    let fixture = fixture_with_history().await;
    for _ in 0..10 {
        let start = count_frames(&fixture);
        let lease = EnqueueLease { owner: worker(), duration: HOUR };
        let request = EnqueueRequest { lease: Some(lease), ..EnqueueRequest::new(vec![event()]) };
        let lease = fixture.store.enqueue(request).await.unwrap().leases.remove(0);
        let enqueued = count_frames(&fixture);
        fixture.store.settle(&worker(), &[settlement(&lease, 200)]).await.unwrap();
        let settled = count_frames(&fixture);
        assert_eq!([enqueued - start, settled - enqueued], [7, 5]);
    }
}

#[tokio::test]
async fn an_idempotency_key_writes_two_pages_more() {
    let fixture = fixture_with_history().await;
    for key in 0..10 {
        let idempotency = Idempotency { key: format!("key-{key}"), fingerprint: [0; 32], keep_for: HOUR };
        let before = count_frames(&fixture);
        let request = EnqueueRequest {
            idempotency: Some(idempotency),
            stored_by: Some("orders".to_owned()),
            ..EnqueueRequest::new(vec![event()])
        };
        fixture.store.enqueue(request).await.unwrap();
        assert_eq!(count_frames(&fixture) - before, 9);
    }
}

#[tokio::test]
async fn the_store_reports_the_size_of_the_log_while_a_reader_holds_it() {
    let fixture = fixture_with_history().await;
    let reader = fixture.sql();
    reader.execute_batch("BEGIN; SELECT count(*) FROM webhook_events").unwrap();
    enqueue(&fixture.store, vec![event(); 100]).await;
    let log = fixture.path.with_extension("db-wal").metadata().unwrap().len();
    assert!(log > FRAME_BYTES);
    assert_eq!(fixture.store.wal_bytes(), Some(log));
}

/// Environment variable of a child process: the database file to use.
const DATABASE: &str = "POSTHASTE_TEST_FULL_DISK_DATABASE";
/// More events than fit into a log of [`FILE_KIB_MAX`] at seven pages each, and fewer than fit into a database.
const EVENTS: usize = 400;
const FILE_KIB_MAX: usize = 2_048;

#[tokio::test]
async fn a_checkpoint_makes_room_when_the_log_cannot_grow() {
    if let Some(database) = env::var_os(DATABASE) {
        let random = system_rng().unwrap();
        let store = SqliteStore::open(database, std::sync::Arc::new(SystemClock), random, Options::default())
            .unwrap();
        for _ in 0..EVENTS {
            enqueue(&store, vec![event()]).await;
        }
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let test = "write_ahead_log::a_checkpoint_makes_room_when_the_log_cannot_grow";
    // A limit on the size of files simulates a full disk. bash counts in KiB.
    let limited = format!("trap '' XFSZ; ulimit -f {FILE_KIB_MAX}; exec \"$0\" \"$@\"");
    let child = Command::new("bash")
        .args(["-c", &limited])
        .arg(env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(DATABASE, directory.path().join("outbox.db"))
        .output()
        .unwrap();
    let output = [child.stdout, child.stderr].map(|output| String::from_utf8_lossy(&output).into_owned());
    assert!(child.status.success(), "{output:?}");
    assert!(EVENTS as u64 * 7 * FRAME_BYTES > 2 * 1_024 * FILE_KIB_MAX as u64, "the log never fills");
}
