//! Servers that stop, restart, reject writes, hang and recover. Every call returns within its bound, with a transient
//! error, and no acknowledged write is lost.

use std::net::TcpListener;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_postgres_server::{PostgresServer, StopMode, TEST_SETTINGS};
use posthaste_store::{DeadLetterQuery, LeaseRef, PageRequest, SettleResult, Store, StoreError};
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::{PostgresStore, migrate};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// Within this, every call of the store returns: its own limit is 15 s, and the machine may be slow.
const BOUND: Duration = Duration::from_secs(45);

fn server() -> PostgresServer {
    PostgresServer::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes a call of every purpose and returns the reasons for which they failed.
async fn failure_reasons(store: &PostgresStore) -> Vec<String> {
    let event_id = posthaste_domain::EventId::new("some").unwrap();
    let held = [LeaseRef {
        key: posthaste_domain::EventKey(1),
        token: posthaste_domain::LeaseToken::random([1; 16]),
    }];
    let (claim, page) = (claim_by("worker-a"), PageRequest::default());
    let calls = join_all([
        Box::pin(async { store.enqueue(request(vec![spec()])).await.map(drop) })
            as std::pin::Pin<Box<dyn Future<Output = _>>>,
        Box::pin(async { store.claim(&claim).await.map(drop) }),
        Box::pin(async { store.renew(&held, LEASE).await.map(drop) }),
        Box::pin(async { store.release(&held).await }),
        Box::pin(async { store.overview().await.map(drop) }),
        Box::pin(async { store.dead_letters(&DeadLetterQuery::all(), &page).await.map(drop) }),
        Box::pin(async { store.event(&event_id).await.map(drop) }),
        Box::pin(async { store.requeue(&event_id, "operator".into()).await.map(drop) }),
        Box::pin(async { store.notices(None, 1).await.map(drop) }),
    ]);
    let results = within(BOUND, "every call returns", calls).await;
    results
        .into_iter()
        .map(|result| match result.expect_err("the server is down") {
            StoreError::Unavailable { reason } => reason,
            error => panic!("the failure is transient, and this error is not: {error:?}"),
        })
        .collect()
}

#[tokio::test]
async fn a_crash_loses_no_acknowledged_write_and_no_lease() {
    let server = server();
    let database = server.create_database("crash");
    let store = open(&database.url).await;
    let stored = enqueue_all(&store, (0..60).map(|_| spec()).collect()).await;
    let leases =
        store.claim(&posthaste_store::ClaimRequest { limit: 20, ..claim_by("worker-a") }).await.unwrap();
    let (settled, held) = leases.leases.split_at(10);
    assert_eq!(settle(&store, settled, 200).await, [SettleResult::Applied; 10]);

    server.stop(StopMode::Immediate).unwrap();
    failure_reasons(&store).await;
    server.start_again().unwrap();

    wait_until(TIMEOUT, "the store recovers", async || store.overview().await.is_ok()).await;
    let holding: Vec<LeaseRef> = held.iter().map(LeaseRef::from).collect();
    assert_eq!(store.renew(&holding, LEASE).await.unwrap(), []);
    assert_eq!(settle(&store, settled, 200).await, [SettleResult::Replayed; 10]);
    assert_eq!(settle(&store, held, 200).await, [SettleResult::Applied; 10]);
    let rest = claim(&store).await;
    assert_eq!(rest.len(), 40);
    settle(&store, &rest, 200).await;
    let overview = store.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending), (60, 0));
    for event_id in &stored {
        assert_eq!(store.event(event_id).await.unwrap().history.len(), 1);
    }
}

#[tokio::test]
async fn calls_during_a_restart_succeed_or_fail_with_a_transient_error() {
    let server = server();
    let database = server.create_database("restart");
    let store = open(&database.url).await;
    let mut acknowledged = 0;
    let mut enqueue_ten = async || {
        for _ in 0..10 {
            match within(BOUND, "every call returns", store.enqueue(request(vec![spec()]))).await {
                Ok(_) => acknowledged += 1,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    };
    enqueue_ten().await;
    server.restart().unwrap();
    enqueue_ten().await;
    wait_until(TIMEOUT, "the store recovers", async || store.overview().await.is_ok()).await;
    let stored = claim(&store).await.len();
    assert!(stored >= acknowledged && acknowledged > 10, "{acknowledged} acknowledged, {stored} stored");
}

/// The process id of the backend on which a store listens.
async fn listening_pid(url: &str) -> i32 {
    let client = client(url).await;
    let sql = "SELECT pid FROM pg_stat_activity
               WHERE datname = current_database() AND query LIKE 'LISTEN %' AND state = 'idle'";
    let mut pid = 0;
    wait_until(2 * TIMEOUT, "the store listens", async || {
        let rows = client.query(sql, &[]).await.unwrap();
        pid = rows.first().map_or(0, |row| row.get(0));
        pid != 0
    })
    .await;
    pid
}

#[tokio::test]
async fn after_a_restart_the_store_listens_again_and_wakes_workers_for_missed_events() {
    let server = server();
    let database = server.create_database("listen");
    let store = open(&database.url).await;
    let first = listening_pid(&database.url).await;
    server.stop(StopMode::Fast).unwrap();
    let mut wakeups = store.wakeups();
    server.start_again().unwrap();
    // No connection listens yet, and no worker has claimed: neither a notification nor a poll finds this event.
    query_text(&server, &database.name, &format!("SELECT app.enqueue_webhook('{URL}', 'x', '1')"));
    within(2 * TIMEOUT, "workers are woken", wakeups.wait()).await;
    wait_until(TIMEOUT, "the event is claimed", async || {
        store.claim(&claim_by("worker-a")).await.is_ok_and(|claimed| claimed.leases.len() == 1)
    })
    .await;

    assert_ne!(listening_pid(&database.url).await, first);
    let mut wakeups = store.wakeups();
    query_text(&server, &database.name, "NOTIFY posthaste_due");
    expect_soon("the new connection receives notifications", wakeups.wait()).await;
}

#[tokio::test]
async fn terminated_backends_lose_no_event() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let admin = client(&harness.database.url).await;
    enqueue_all(&*store, (0..30).map(|_| spec()).collect()).await;
    let mut settled = 0;
    for _ in 0..30 {
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                   WHERE datname = current_database() AND application_name = 'posthaste'";
        admin.execute(end, &[]).await.unwrap();
        let claim = posthaste_store::ClaimRequest { limit: 1, ..claim_by("worker-a") };
        let mut lease = None;
        wait_until(TIMEOUT, "a claim, repeated under its id, succeeds", async || {
            lease =
                store.claim(&claim).await.map_err(|error| assert!(error.is_transient(), "{error:?}")).ok();
            lease.is_some()
        })
        .await;
        let leases = lease.unwrap().leases;
        assert_eq!(leases.len(), 1);
        let batch = [settlement(&leases[0], 200)];
        wait_until(TIMEOUT, "a settle succeeds", async || {
            let results = store.settle(&worker("worker-a"), &batch).await;
            results.is_ok_and(|results| results[0].is_written())
        })
        .await;
        settled += 1;
    }
    let overview = store.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending, overview.failed), (settled, 0, 0));
}

#[tokio::test]
async fn a_read_only_server_is_reported_and_used_again_once_it_accepts_writes() {
    let server = server();
    let database = server.create_database("read_only");
    let store = open(&database.url).await;
    enqueue(&store, spec()).await;
    let set = |value: &str| {
        query_text(&server, "postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {value}"));
        query_text(&server, "postgres", "SELECT pg_reload_conf()");
    };
    set("on");
    let watch = client(&database.url).await;
    wait_until(TIMEOUT, "the server has read its configuration", async || {
        watch.query_one("SHOW transaction_read_only", &[]).await.unwrap().get::<_, &str>(0) == "on"
    })
    .await;
    for result in [
        store.enqueue(request(vec![spec()])).await.map(drop),
        store.claim(&claim_by("worker-a")).await.map(drop),
        store.cancel(&posthaste_domain::EventId::new("x").unwrap(), "operator".into(), None).await.map(drop),
    ] {
        let Err(StoreError::Unavailable { reason }) = result else { panic!("{result:?}") };
        assert!(reason.contains("accepts no writes"), "{reason}");
    }
    assert_eq!(store.overview().await.unwrap().pending, 1, "reads still succeed");
    // A session of a server that is read-only by default may turn writes on for itself.
    query_text(
        &server,
        "postgres",
        "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only;",
    );
    query_text(&server, "postgres", "SELECT pg_reload_conf()");
    wait_until(TIMEOUT, "the store writes again", async || {
        store.claim(&claim_by("worker-a")).await.is_ok_and(|claimed| claimed.leases.len() == 1)
    })
    .await;
}

/// A listener that accepts connections and never responds, like a proxy of a dead server.
fn silent_server() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://postgres@{}/shop", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn calls_to_a_server_that_never_responds_return_within_their_bound() {
    let (_listener, url) = silent_server();
    let store = PostgresStore::connect(config(&url));
    for reason in failure_reasons(&store).await {
        assert!(reason.contains("PostgreSQL"), "{reason}");
    }
}

#[tokio::test]
async fn a_migration_on_a_server_that_never_responds_fails_within_a_bound() {
    let (_listener, url) = silent_server();
    let result = within(2 * BOUND, "the migration fails", migrate(&config(&url))).await;
    assert!(result.is_err());
}
