//! Enqueues beside another client's open transaction that holds a new destination, an event id or a table.

use std::sync::Arc;

use futures_util::future::join_all;
use posthaste_store::{EnqueueRequest, EnqueueResponse, Store, StoreError};
use posthaste_store_conformance::Harness as _;
use tokio::task::JoinHandle;

use crate::fixture::*;
use crate::support::PostgresHarness;

const NEW_URL: &str = "https://new.example/hook";

/// Enqueues in a task of its own.
fn spawn_enqueue(
    store: &Arc<dyn Store>,
    request: EnqueueRequest,
) -> JoinHandle<Result<EnqueueResponse, StoreError>> {
    let store = Arc::clone(store);
    tokio::spawn(async move { store.enqueue(request).await })
}

#[tokio::test]
async fn a_new_destination_of_an_open_transaction_blocks_only_the_requests_that_need_it() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let caller = client(&harness.database.url).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{NEW_URL}', 'x', '1')");
    caller.batch_execute(&sql).await.unwrap();

    let blocked = spawn_enqueue(&store, request(vec![spec_to(NEW_URL)]));
    let others = [spec(), spec_to("https://another.example/"), spec_with_id("beside-it")];
    let others = others.map(|spec| store.enqueue(request(vec![spec])));
    for other in expect_soon("they do not wait for the blocked request", join_all(others)).await {
        other.unwrap();
    }
    assert!(!blocked.is_finished(), "it waits for the open transaction");

    caller.batch_execute("COMMIT").await.unwrap();
    expect_soon("the destination is free", blocked).await.unwrap().unwrap();
    assert_eq!(store.overview().await.unwrap().pending, 6, "each request was stored once");
}

#[tokio::test]
async fn an_event_id_of_an_open_transaction_blocks_only_the_requests_that_name_it() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let caller = client(&harness.database.url).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => 'wanted')");
    caller.batch_execute(&sql).await.unwrap();

    let blocked = spawn_enqueue(&store, request(vec![spec_with_id("wanted")]));
    expect_soon("it does not wait for the blocked request", store.enqueue(request(vec![spec()])))
        .await
        .unwrap();
    assert!(!blocked.is_finished(), "it waits for the open transaction");

    caller.batch_execute("COMMIT").await.unwrap();
    let refused = expect_soon("the transaction has ended", blocked).await.unwrap();
    assert!(matches!(refused, Err(StoreError::EventIdTaken { .. })), "{refused:?}");
}

#[tokio::test]
async fn many_new_destinations_of_an_open_transaction_block_only_the_requests_that_need_them() {
    const LOCKED: usize = 3;
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let url = |number: usize| format!("https://new-{number}.example/");
    let caller = client(&harness.database.url).await;
    caller.batch_execute("BEGIN").await.unwrap();
    for number in 0..LOCKED {
        let sql = format!("SELECT app.enqueue_webhook('{}', 'x', '1')", url(number));
        caller.batch_execute(&sql).await.unwrap();
    }
    let requests: Vec<_> = (0..40)
        .map(|number| (number, spawn_enqueue(&store, request(vec![spec_to(&url(number % 10))]))))
        .collect();
    let (blocked, others): (Vec<_>, Vec<_>) =
        requests.into_iter().partition(|(number, _)| number % 10 < LOCKED);
    for (_, other) in others {
        expect_soon("it does not wait for the blocked requests", other).await.unwrap().unwrap();
    }
    caller.batch_execute("ROLLBACK").await.unwrap();
    for (_, blocked) in blocked {
        expect_soon("the destinations are free", blocked).await.unwrap().unwrap();
    }
    assert_eq!(store.overview().await.unwrap().pending, 40, "each request was stored once");
}

#[tokio::test]
async fn a_request_that_stays_blocked_is_unavailable_and_not_stored() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let caller = client(&harness.database.url).await;
    let sql = format!("BEGIN; SELECT app.enqueue_webhook('{NEW_URL}', 'x', '1')");
    caller.batch_execute(&sql).await.unwrap();
    let blocked = (0..5).map(|_| store.enqueue(request(vec![spec_to(NEW_URL)])));
    for result in expect_soon("the wait is bounded", join_all(blocked)).await {
        let Err(StoreError::Busy { reason }) = result else { panic!("{result:?}") };
        assert!(reason.contains("another client's open transaction holds"), "{reason}");
    }
    caller.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(store.overview().await.unwrap().pending, 0);
    expect_soon("the destination is free", store.enqueue(request(vec![spec_to(NEW_URL)]))).await.unwrap();
}

#[tokio::test]
async fn a_locked_table_blocks_all_requests_until_it_is_unlocked() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let other = client(&harness.database.url).await;
    other.batch_execute("BEGIN; LOCK TABLE app.webhook_events").await.unwrap();
    let waiting: Vec<_> = (0..100).map(|_| spawn_enqueue(&store, request(vec![spec()]))).collect();
    let watch = client(&harness.database.url).await;
    wait_until(TIMEOUT, "the batch waits", async || {
        let sql = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
        watch.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) >= 1
    })
    .await;
    other.batch_execute("ROLLBACK").await.unwrap();
    for result in expect_soon("the lock is gone", join_all(waiting)).await {
        result.unwrap().unwrap();
    }
}

#[tokio::test]
async fn requests_that_name_the_same_events_in_another_order_do_not_deadlock() {
    const EVENTS: usize = 300;
    let harness = PostgresHarness::start().await;
    enqueue_all(&*harness.store(), vec![spec()]).await;
    for round in 0..5 {
        let forwards: Vec<_> = (0..EVENTS).map(|number| spec_with_id(&format!("{round}-{number}"))).collect();
        let backwards: Vec<_> = forwards.iter().rev().cloned().collect();
        // Two stores, because one would put both requests into one batch.
        let stores = [harness.store(), harness.second_handle()];
        let enqueues = [forwards, backwards]
            .into_iter()
            .zip(stores)
            .map(|(specs, store)| async move { store.enqueue(request(specs)).await });
        let results = expect_soon("both return", join_all(enqueues)).await;
        let (stored, refused): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
        assert_eq!((stored.len(), refused.len()), (1, 1), "{refused:?}");
        assert!(matches!(refused[0], Err(StoreError::EventIdTaken { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn concurrent_requests_share_commits() {
    const REQUESTS: i64 = 300;
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    enqueue_all(&*store, vec![spec()]).await;
    let watch = client(&harness.database.url).await;
    // Every commit that stores events adds one row to the counts.
    let commits = async || {
        let row = watch.query_one("SELECT count(*) FROM app.webhook_counts", &[]).await.unwrap();
        row.get::<_, i64>(0)
    };
    let before = commits().await;
    let results = join_all((0..REQUESTS).map(|_| store.enqueue(request(vec![spec()])))).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    let made = commits().await - before;
    assert!(made <= 10, "{made} commits for {REQUESTS} requests");
}
