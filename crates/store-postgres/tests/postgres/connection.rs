//! Servers that stop, restart, refuse, hang and come back. Every call answers within its bound, with an error that says
//! to ask again, and what was acknowledged is there afterwards.

use std::net::TcpListener;
use std::time::Duration;

use futures_util::future::join_all;
use posthaste_postgres_server::{FOR_TESTS, PostgresServer, StopMode};
use posthaste_store::{HeldLease, PageRequest, Settled, Store, StoreError};
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::{PostgresStore, migrate};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// Every call of the store returns within this, whatever the server does.
const BOUND: Duration = Duration::from_secs(16);

fn server() -> PostgresServer {
    PostgresServer::start(FOR_TESTS).unwrap_or_else(|error| panic!("{error}"))
}

/// Makes a call of every purpose, and returns why each of them failed.
async fn reasons(store: &PostgresStore) -> Vec<String> {
    let event_id = posthaste_domain::EventId::new("some").unwrap();
    let batch = [request(vec![spec()])];
    let held = [HeldLease {
        key: posthaste_domain::EventKey(1),
        token: posthaste_domain::LeaseToken::random([1; 16]),
    }];
    let (claim, page) = (claim_by("worker-a"), PageRequest::default());
    let calls = join_all([
        Box::pin(async { store.enqueue(&batch).await.map(drop) })
            as std::pin::Pin<Box<dyn Future<Output = _>>>,
        Box::pin(async { store.claim(&claim).await.map(drop) }),
        Box::pin(async { store.renew(&held, LEASE).await.map(drop) }),
        Box::pin(async { store.release(&held).await }),
        Box::pin(async { store.overview().await.map(drop) }),
        Box::pin(async { store.dead_letters(&page).await.map(drop) }),
        Box::pin(async { store.event(&event_id).await.map(drop) }),
        Box::pin(async { store.requeue(&event_id, "operator").await.map(drop) }),
        Box::pin(async { store.notices(None, 1).await.map(drop) }),
    ]);
    let answers = within(BOUND, "every call returns", calls).await;
    answers
        .into_iter()
        .map(|answer| match answer.expect_err("the server cannot answer") {
            StoreError::Unavailable { reason } => reason,
            error => panic!("asking again will help, and this says otherwise: {error:?}"),
        })
        .collect()
}

#[tokio::test]
async fn a_crash_loses_nothing_that_was_acknowledged_and_leases_survive_it() {
    let server = server();
    let database = server.create_database("crash");
    let store = open(&database.url).await;
    let stored = enqueue_all(&store, (0..60).map(|_| spec()).collect()).await;
    let leases =
        store.claim(&posthaste_store::ClaimRequest { limit: 20, ..claim_by("worker-a") }).await.unwrap();
    let (ended, held) = leases.leases.split_at(10);
    assert_eq!(settle(&store, ended, 200).await, [Settled::Applied; 10]);

    server.stop(StopMode::Immediate).unwrap();
    reasons(&store).await;
    server.start_again().unwrap();

    until(SOON, "the store goes on", async || store.overview().await.is_ok()).await;
    let holding: Vec<HeldLease> = held.iter().map(HeldLease::from).collect();
    assert_eq!(store.renew(&holding, LEASE).await.unwrap(), []);
    assert_eq!(settle(&store, ended, 200).await, [Settled::Replayed; 10]);
    assert_eq!(settle(&store, held, 200).await, [Settled::Applied; 10]);
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
async fn calls_in_the_middle_of_a_restart_fail_as_transient_or_succeed() {
    let server = server();
    let database = server.create_database("restart");
    let store = open(&database.url).await;
    let mut acknowledged = 0;
    let mut enqueue_ten = async || {
        for _ in 0..10 {
            match within(BOUND, "every call returns", store.enqueue(&[request(vec![spec()])])).await {
                Ok(_) => acknowledged += 1,
                Err(error) => assert!(error.is_transient(), "{error:?}"),
            }
        }
    };
    enqueue_ten().await;
    server.restart().unwrap();
    enqueue_ten().await;
    until(SOON, "the store goes on", async || store.overview().await.is_ok()).await;
    let stored = claim(&store).await.len();
    assert!(stored >= acknowledged && acknowledged > 10, "{acknowledged} acknowledged, {stored} stored");
}

/// The backend that listens for a store.
async fn listening_pid(url: &str) -> i32 {
    let client = client(url).await;
    let sql = "SELECT pid FROM pg_stat_activity
               WHERE datname = current_database() AND query LIKE 'LISTEN %' AND state = 'idle'";
    let mut pid = 0;
    until(2 * SOON, "the store listens", async || {
        let rows = client.query(sql, &[]).await.unwrap();
        pid = rows.first().map_or(0, |row| row.get(0));
        pid != 0
    })
    .await;
    pid
}

#[tokio::test]
async fn listening_is_taken_up_again_and_what_came_meanwhile_is_looked_for() {
    let server = server();
    let database = server.create_database("listen");
    let store = open(&database.url).await;
    let first = listening_pid(&database.url).await;
    server.stop(StopMode::Fast).unwrap();
    let mut wakeups = store.wakeups();
    server.start_again().unwrap();
    // Nobody listens yet; the notification of this goes unheard.
    say(&server, &database.name, &format!("SELECT app.enqueue_webhook('{URL}', 'x', '1')"));
    within(2 * SOON, "workers look once more", wakeups.woken()).await;
    until(SOON, "the event is claimed", async || {
        store.claim(&claim_by("worker-a")).await.is_ok_and(|claimed| claimed.leases.len() == 1)
    })
    .await;

    assert_ne!(listening_pid(&database.url).await, first);
    let mut wakeups = store.wakeups();
    say(&server, &database.name, &format!("SELECT app.enqueue_webhook('{URL}', 'x', '1')"));
    soon("the new connection hears", wakeups.woken()).await;
}

#[tokio::test]
async fn backends_that_an_administrator_ends_cost_no_event() {
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
        until(SOON, "a claim succeeds, asked again under its own id", async || {
            lease =
                store.claim(&claim).await.map_err(|error| assert!(error.is_transient(), "{error:?}")).ok();
            lease.is_some()
        })
        .await;
        let leases = lease.unwrap().leases;
        assert_eq!(leases.len(), 1);
        let batch = [settlement(&leases[0], 200)];
        until(SOON, "a settle succeeds", async || {
            let answer = store.settle(&worker("worker-a"), &batch).await;
            answer.is_ok_and(|answer| answer[0].is_written())
        })
        .await;
        settled += 1;
    }
    let overview = store.overview().await.unwrap();
    assert_eq!((overview.delivered, overview.pending, overview.failed), (settled, 0, 0));
}

#[tokio::test]
async fn a_server_that_takes_no_writes_is_said_to_and_used_again_when_it_does() {
    let server = server();
    let database = server.create_database("read_only");
    let store = open(&database.url).await;
    enqueue(&store, spec()).await;
    let set = |value: &str| {
        say(&server, "postgres", &format!("ALTER SYSTEM SET default_transaction_read_only = {value}"));
        say(&server, "postgres", "SELECT pg_reload_conf()");
    };
    set("on");
    let watch = client(&database.url).await;
    until(SOON, "the server has read its configuration", async || {
        watch.query_one("SHOW transaction_read_only", &[]).await.unwrap().get::<_, &str>(0) == "on"
    })
    .await;
    for answer in [
        store.enqueue(&[request(vec![spec()])]).await.map(drop),
        store.claim(&claim_by("worker-a")).await.map(drop),
        store.cancel(&posthaste_domain::EventId::new("x").unwrap(), "operator", None).await.map(drop),
    ] {
        let Err(StoreError::Unavailable { reason }) = answer else { panic!("{answer:?}") };
        assert!(reason.contains("accepts no writes"), "{reason}");
    }
    assert_eq!(store.overview().await.unwrap().pending, 1, "reading goes on");
    // A session that is read-only by default can still say otherwise.
    say(
        &server,
        "postgres",
        "SET default_transaction_read_only = off; ALTER SYSTEM RESET default_transaction_read_only;",
    );
    say(&server, "postgres", "SELECT pg_reload_conf()");
    until(SOON, "the store writes again", async || {
        store.claim(&claim_by("worker-a")).await.is_ok_and(|claimed| claimed.leases.len() == 1)
    })
    .await;
}

/// A listener that accepts and then says nothing, as a proxy with a dead server behind it.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("postgres://postgres@{}/shop", listener.local_addr().unwrap());
    (listener, url)
}

#[tokio::test]
async fn calls_to_a_server_that_never_answers_return_within_their_bound() {
    let (_listener, url) = silent();
    let store = PostgresStore::connect(config(&url));
    for reason in reasons(&store).await {
        assert!(reason.contains("PostgreSQL"), "{reason}");
    }
}

#[tokio::test]
async fn a_migration_on_a_server_that_never_answers_ends_within_a_bound() {
    let (_listener, url) = silent();
    let answer = within(2 * BOUND, "migrating gives up", migrate(&config(&url))).await;
    assert!(answer.is_err());
}
