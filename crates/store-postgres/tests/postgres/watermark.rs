//! The oldest-pending watermark: old events that an operator requeues, events that commit after it has risen, and its
//! repair by the sweep.

use std::time::Duration;

use posthaste_domain::DeliveryStatus;
use posthaste_postgres_server::{PostgresServer, TEST_SETTINGS};
use posthaste_store::{EventQuery, PageRequest, Store as _};
use posthaste_store_postgres::PostgresStore;
use posthaste_store_postgres::tokio_postgres::Client;

use crate::fixture::*;

/// Upper bound of the wait for a housekeeping round, which runs every 5 seconds.
const ROUND_MAX: Duration = Duration::from_secs(30);
/// Within this time of its commit, a running worker finds an event.
const FOUND_WITHIN: Duration = Duration::from_secs(20);

/// Waits for a housekeeping round. A round ends by compacting the counts into one row.
async fn wait_for_housekeeping(client: &Client) {
    client.batch_execute("INSERT INTO app.webhook_counts DEFAULT VALUES").await.unwrap();
    client.batch_execute("INSERT INTO app.webhook_counts DEFAULT VALUES").await.unwrap();
    wait_until(ROUND_MAX, "a housekeeping round ends", async || {
        let sql = "SELECT count(*) FROM app.webhook_counts";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 1
    })
    .await;
}

#[tokio::test]
async fn an_old_event_whose_reset_spans_a_housekeeping_round_is_listed_as_pending() {
    let database = PostgresServer::shared().create_database("oldest");
    let store = open(&database.url).await;
    let old = enqueue_and_attempt(&store, spec_with_id("old"), 410).await;
    enqueue(&store, spec_with_id("new")).await;
    let (watch, operator) = (client(&database.url).await, client(&database.url).await);
    wait_for_housekeeping(&watch).await;
    let reset = "UPDATE app.webhook_deliveries SET attempt_count = 0, status = 'pending' WHERE id = 'old'";
    operator.batch_execute(&format!("BEGIN; {reset}")).await.unwrap();
    wait_for_housekeeping(&watch).await;
    operator.batch_execute("COMMIT").await.unwrap();

    let pending = EventQuery { status: Some(DeliveryStatus::Pending), ..EventQuery::default() };
    let listed = store.events(&pending, &PageRequest::default()).await.unwrap().items;
    let listed: Vec<&str> = listed.iter().map(|event| event.event_id.as_str()).collect();
    assert_eq!(listed, ["new", "old"]);
    let detail = store.event(&old).await.unwrap().event;
    let age = store.overview().await.unwrap().oldest_pending_age.expect("two are pending");
    let newer = store.event(&posthaste_domain::EventId::new("new").unwrap()).await.unwrap().event;
    // The age is measured from the older of the two pending events.
    assert!(detail.created_at < newer.created_at);
    let now = detail.created_at.after(age);
    assert!(now >= detail.updated_at, "the oldest is the old one, {age:?} old: {detail:?}");
}

/// Draws more event keys than a new process reads again below the last one.
async fn draw_keys(client: &Client) {
    let sql = "SELECT nextval('app.webhook_event_key') FROM generate_series(1, 20000)";
    client.execute(sql, &[]).await.unwrap();
}

/// Claims until the event is granted, within the bound of a worker's search.
async fn expect_found(store: &PostgresStore, event_id: &str) {
    let what = format!("a claim grants {event_id}");
    wait_until(FOUND_WITHIN, &what, async || event_ids(&claim(store).await) == [event_id]).await;
}

#[tokio::test]
async fn an_event_whose_insert_was_blocked_while_housekeeping_ran_is_found_after_a_restart() {
    // A server of its own, because open transactions of other tests would keep the watermark from rising.
    let server = PostgresServer::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
    let database = server.create_database("blocked");
    let store = open(&database.url).await;
    enqueue_and_attempt(&store, spec(), 200).await;
    // Locks the table as CREATE INDEX does. Both inserts wait, after their events have drawn their keys.
    let (indexer, watch) = (client(&database.url).await, client(&database.url).await);
    indexer.batch_execute("BEGIN; LOCK TABLE app.webhook_events IN SHARE MODE").await.unwrap();
    let enqueue =
        |event_id: &str| format!("SELECT app.enqueue_webhook('{URL}', 'x', '1', event_id => '{event_id}')");
    let (late, behind) = (client(&database.url).await, client(&database.url).await);
    let (begin_late, enqueue_behind) = (format!("BEGIN; {}", enqueue("late")), enqueue("behind"));
    let blocked = async |callers: i64| {
        wait_until(TIMEOUT, "the caller waits for the table", async || {
            let sql = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'app.webhook_events'::regclass";
            watch.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == callers
        })
        .await;
    };
    let index = async {
        blocked(2).await;
        for _ in 0..3 {
            wait_for_housekeeping(&watch).await;
        }
        indexer.batch_execute("COMMIT").await.unwrap();
    };
    let second = async {
        blocked(1).await;
        behind.batch_execute(&enqueue_behind).await.unwrap();
    };
    let (begun, (), ()) = tokio::join!(late.batch_execute(&begin_late), index, second);
    begun.unwrap();
    let leases = claim(&store).await;
    assert_eq!(event_ids(&leases), ["behind"]);
    settle(&store, &leases, 200).await;
    draw_keys(&watch).await;
    drop(store);

    let restarted = PostgresStore::connect(config(&database.url));
    assert_eq!(event_ids(&claim(&restarted).await), [""; 0]);
    late.batch_execute("COMMIT").await.unwrap();
    assert!(restarted.overview().await.unwrap().oldest_pending_age.is_some(), "one event is pending");
    expect_found(&restarted, "late").await;
}

#[tokio::test]
async fn the_sweep_repairs_a_watermark_above_a_pending_event_and_the_event_is_found() {
    let database = PostgresServer::shared().create_database("repaired");
    let store = open(&database.url).await;
    enqueue(&store, spec_with_id("hidden")).await;
    drop(store);
    let client = client(&database.url).await;
    draw_keys(&client).await;
    client.batch_execute("UPDATE app.webhook_pending_watermark SET min_key = 15000").await.unwrap();

    let restarted = PostgresStore::connect(config(&database.url));
    expect_found(&restarted, "hidden").await;
    assert!(restarted.overview().await.unwrap().oldest_pending_age.is_some(), "one event is pending");
    let pending = EventQuery { status: Some(DeliveryStatus::Pending), ..EventQuery::default() };
    assert_eq!(restarted.events(&pending, &PageRequest::default()).await.unwrap().items.len(), 1);
}
