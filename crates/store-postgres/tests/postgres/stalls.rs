//! A reachable server that makes no progress: locks held by another client, frozen backends.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_domain::EventId;
use posthaste_postgres_server::{PostgresServer, TEST_SETTINGS};
use posthaste_store::{LeaseRef, Store as _};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::registry_fixture::*;
use crate::support::PostgresHarness;

/// Number of the store's connections that settle.
const SETTLING: i64 = 4;

/// Within this, every call of the store returns: its own limit is 15 s, and the machine may be slow.
const BOUND: Duration = Duration::from_secs(45);

#[tokio::test]
async fn renewals_succeed_while_settles_wait_for_a_lock() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, (0..10).map(|_| spec()).collect()).await;
    let leases = claim(&*store).await;
    let held: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
    let admin = client(&harness.database.url).await;
    admin.batch_execute("BEGIN; LOCK TABLE app.webhook_destinations").await.unwrap();
    // PostgreSQL ends a wait for a lock after five seconds. On a slow machine, settles are repeated.
    let returned = Arc::new(AtomicUsize::new(0));
    let waiting: Vec<_> = leases
        .iter()
        .map(|lease| {
            let (store, batch) = (harness.store(), [settlement(lease, 200)]);
            let returned = Arc::clone(&returned);
            tokio::spawn(async move {
                loop {
                    let settled = store.settle(&worker("worker-a"), &batch).await;
                    returned.fetch_add(1, Ordering::SeqCst);
                    match settled {
                        Err(error) if error.is_transient() => {}
                        settled => return settled,
                    }
                }
            })
        })
        .collect();
    let watch = client(&harness.database.url).await;
    // The renewal has not waited for any of the settles if none has returned before it.
    wait_until(3 * TIMEOUT, "a renewal returns while every settling connection waits", async || {
        let returned_before = returned.load(Ordering::SeqCst);
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%WITH delivered AS%'";
        if watch.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) < SETTLING {
            return false;
        }
        assert_eq!(store.renew(&held, LEASE).await.unwrap(), []);
        returned.load(Ordering::SeqCst) == returned_before
    })
    .await;
    admin.batch_execute("ROLLBACK").await.unwrap();
    for settled in within(3 * TIMEOUT, "the settles end", join_all(waiting)).await {
        assert!(settled.unwrap().unwrap()[0].is_written());
    }
}

#[tokio::test]
async fn a_claim_does_not_wait_for_ever_for_its_turn() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, (0..10).map(|_| spec()).collect()).await;
    let stopped_worker = client(&harness.database.url).await;
    // The lock under which claims are granted leases, held as by a claim that does not end.
    stopped_worker.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7526, 4)").await.unwrap();
    let leases = within(BOUND, "a claim out of turn", claim(&*store)).await;
    assert_eq!(leases.len(), 10);
    stopped_worker.batch_execute("ROLLBACK").await.unwrap();
}

#[tokio::test]
async fn a_claim_leaves_out_a_line_that_a_stopped_worker_holds() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    add_endpoint(&*store, 1, in_fifo_order()).await;
    publish(&*store).await.unwrap();
    let others = enqueue_all(&*store, (0..10).map(|_| spec()).collect()).await;
    let stopped_worker = client(&harness.database.url).await;
    let lock = "BEGIN; SELECT FROM app.webhook_destinations WHERE is_fifo FOR NO KEY UPDATE";
    stopped_worker.batch_execute(lock).await.unwrap();
    let leases = within(BOUND, "a claim of the others", claim(&*store)).await;
    assert_eq!(event_ids(&leases), others.iter().map(EventId::as_str).collect::<Vec<_>>());
    stopped_worker.batch_execute("ROLLBACK").await.unwrap();
    wait_until(BOUND, "the line is claimed when it is free", async || !claim(&*store).await.is_empty()).await;
}

#[tokio::test]
async fn sessions_stay_usable_after_a_lock_wait_times_out() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_and_attempt(&*store, spec(), 200).await;
    let cursor = store.notices(None, 1).await.unwrap().cursor;
    let admin = client(&harness.database.url).await;
    // The lock under which notices get their positions.
    admin.batch_execute("BEGIN; SELECT pg_advisory_xact_lock(7526, 1)").await.unwrap();
    let error = within(BOUND, "the wait is bounded", store.notices(None, 1)).await.unwrap_err();
    assert!(error.is_transient(), "{error:?}");
    admin.batch_execute("ROLLBACK").await.unwrap();
    for _ in 0..10 {
        assert_eq!(store.overview().await.map(|overview| overview.delivered), Ok(1));
        store.notices(Some(cursor), 1).await.expect("the lock has been released");
    }
}

#[tokio::test]
async fn a_settle_on_a_frozen_server_fails_within_the_bound() {
    let server = PostgresServer::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
    let database = server.create_database("freeze");
    let store = open(&database.url).await;
    enqueue(&store, spec()).await;
    let lease = claim_one(&store).await;
    let pids = query_text(
        &server,
        "postgres",
        "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'posthaste'",
    );
    let signal = |signal: &str| {
        let status = std::process::Command::new("kill").arg(signal).args(pids.split(' ')).status();
        assert!(status.unwrap().success());
    };
    signal("-STOP");
    let batch = [settlement(&lease, 200)];
    let settled = within(BOUND, "a settle returns", store.settle(&worker("worker-a"), &batch)).await;
    signal("-CONT");
    assert!(settled.is_err_and(|error| error.is_transient()));
    wait_until(BOUND, "the settle succeeds on the resumed server", async || {
        let settled = store.settle(&worker("worker-a"), &batch).await;
        settled.is_ok_and(|settled| settled[0].is_written())
    })
    .await;
    assert_eq!(store.overview().await.unwrap().delivered, 1);
}
