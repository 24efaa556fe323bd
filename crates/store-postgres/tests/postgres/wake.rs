//! Wake-ups for events that SQL callers and other processes commit: polls, and one notification for many enqueues.

use futures_util::future::join_all;
use posthaste_postgres_server::PostgresServer;
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::{PostgresStore, enqueue_in};

use crate::fixture::*;
use crate::support::PostgresHarness;

/// The notifications up to the one sent here, without the test notifications of stores that have just opened.
async fn notifications(harness: &PostgresHarness, due: &mut Listener) -> Vec<String> {
    query_text(PostgresServer::shared(), &harness.database.name, "NOTIFY posthaste_due, 'end'");
    let mut received = Vec::new();
    while received.last().is_none_or(|last| last != "end") {
        received.push(due.next().await);
    }
    received.retain(|payload| payload != "listening" && payload != "end");
    received
}

#[tokio::test]
async fn an_event_of_a_sql_caller_wakes_a_waiting_worker_without_a_notification() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut due = Listener::on(&harness.database.url, "posthaste_due").await;
    assert_eq!(event_ids(&claim(&*store).await), [""; 0]);
    for id in ["first", "second"] {
        let mut wakeups = store.wakeups();
        let call = format!("SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => '{id}')");
        query_text(PostgresServer::shared(), &harness.database.name, &call);
        wait_until(TIMEOUT, "a wake-up leads to the event", async || {
            expect_soon("the worker is woken", wakeups.wait()).await;
            event_ids(&claim(&*store).await) == [id]
        })
        .await;
    }
    assert_eq!(notifications(&harness, &mut due).await, [""; 0], "callers' commits notify no worker");
}

#[tokio::test]
async fn an_event_that_commits_after_newer_ones_wakes_a_waiting_worker() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    assert_eq!(event_ids(&claim(&*store).await), [""; 0]);
    let mut caller = client(&harness.database.url).await;
    let transaction = caller.transaction().await.unwrap();
    enqueue_in(&transaction, &[new_event(spec_with_id("late"))]).await.unwrap();
    enqueue(&*store, spec_to("https://other.example/")).await;
    assert_eq!(claim(&*store).await.len(), 1, "the newer event");
    let mut wakeups = store.wakeups();
    transaction.commit().await.unwrap();
    wait_until(TIMEOUT, "a wake-up leads to the event", async || {
        expect_soon("the worker is woken", wakeups.wait()).await;
        event_ids(&claim(&*store).await) == ["late"]
    })
    .await;
}

#[tokio::test]
async fn a_process_without_a_worker_notifies_those_with_one_and_seldom() {
    const ENQUEUES: usize = 500;
    let harness = PostgresHarness::start().await;
    let (with_worker, without) = (harness.store(), PostgresStore::connect(config(&harness.database.url)));
    let mut due = Listener::on(&harness.database.url, "posthaste_due").await;
    assert_eq!(event_ids(&claim(&*with_worker).await), [""; 0]);
    enqueue(&*with_worker, spec()).await;
    assert_eq!(notifications(&harness, &mut due).await, [""; 0], "its own worker finds the event");
    for _ in 0..ENQUEUES / 50 {
        join_all((0..50).map(|_| enqueue(&without, spec()))).await;
    }
    assert_eq!(due.next().await, "");
    let received = notifications(&harness, &mut due).await;
    assert!(received.len() < ENQUEUES / 10, "{} notifications for {ENQUEUES} enqueues", received.len());
    assert_eq!(claim(&*with_worker).await.len(), ENQUEUES + 1);
}
