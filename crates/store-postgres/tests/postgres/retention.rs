//! Daily partitions of attempt records: created ahead, dropped whole, and without blocking dispatch.

use posthaste_domain::DeliveryStatus;
use posthaste_postgres_server::PostgresServer;
use posthaste_store::{
    EventQuery, ExamineLimit, MaintenanceReport, PageRequest, Retention, SettleResult, Store,
};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::support::PostgresHarness;

fn keep(days: u32) -> Retention {
    Retention {
        keep_for: Some(days * DAY),
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 1_000,
    }
}

/// The days that have a partition, relative to the server's today.
fn days(database: &str) -> String {
    let sql = "SELECT string_agg((to_date(right(relname, 8), 'YYYYMMDD')
                                  - (app.webhook_now() AT TIME ZONE 'UTC')::date)::text, ' ' ORDER BY relname)
               FROM pg_class WHERE relname ~ '^webhook_attempts_[0-9]{8}$'";
    query_text(PostgresServer::shared(), database, sql)
}

/// The number of attempts in the default partition.
fn unpartitioned(database: &str) -> String {
    query_text(PostgresServer::shared(), database, "SELECT count(*) FROM app.webhook_attempts_default")
}

async fn run_maintenance(store: &dyn Store, retention: Retention) -> MaintenanceReport {
    expect_soon("maintenance does not wait for locks", store.maintain(&retention))
        .await
        .expect("the store is up")
}

#[tokio::test]
async fn opening_the_store_creates_partitions_for_today_and_three_days_ahead() {
    let database = PostgresServer::shared().create_database("partitions");
    let store = open(&database.url).await;
    assert_eq!(days(&database.name), "0 1 2 3");
    enqueue_and_attempt(&store, spec(), 200).await;
    assert_eq!(unpartitioned(&database.name), "0");
}

#[tokio::test]
async fn maintenance_creates_partitions_ahead_and_drops_old_ones() {
    let harness = PostgresHarness::start().await;
    let (store, name) = (harness.store(), &harness.database.name);
    run_maintenance(&*store, keep(3)).await;
    assert_eq!(days(name), "0 1 2 3");
    let event_id = enqueue_and_attempt(&*store, spec(), 500).await;
    harness.advance(2 * DAY).await;
    run_maintenance(&*store, keep(3)).await;
    assert_eq!(days(name), "-2 -1 0 1 2 3", "partitions of the last three days are kept");
    assert_eq!(store.event(&event_id).await.unwrap().history.len(), 1);
    harness.advance(3 * DAY).await;
    run_maintenance(&*store, keep(3)).await;
    assert_eq!(days(name), "-3 -2 -1 0 1 2 3", "a partition is dropped once its whole day is too old");
    let detail = store.event(&event_id).await.unwrap();
    assert_eq!(
        (detail.event.attempts, detail.history.len()),
        (1, 0),
        "the event is kept, its old attempt is dropped"
    );
}

#[tokio::test]
async fn without_retention_nothing_is_dropped() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let event_id = enqueue_and_attempt(&*store, spec(), 200).await;
    for _ in 0..3 {
        harness.advance(100 * DAY).await;
        run_maintenance(
            &*store,
            Retention {
                keep_for: None,
                keep_dead_letters_for: None,
                keep_unused_destinations_for: None,
                rows_max: 1_000,
            },
        )
        .await;
    }
    assert_eq!(store.event(&event_id).await.unwrap().history.len(), 1);
}

#[tokio::test]
async fn attempts_of_a_day_without_a_partition_are_stored_and_later_deleted() {
    let harness = PostgresHarness::start().await;
    let (store, name) = (harness.store(), &harness.database.name);
    let event_id = enqueue_and_attempt(&*store, spec(), 200).await;
    assert_eq!(unpartitioned(name), "1", "migrating the template has created no partitions");
    // Today's partition cannot be created, because the default partition holds attempts of today.
    run_maintenance(&*store, keep(3)).await;
    assert_eq!(days(name), "1 2 3");
    enqueue_and_attempt(&*store, spec(), 200).await;
    assert_eq!(store.event(&event_id).await.unwrap().history.len(), 1);
    harness.advance(DAY).await;
    enqueue_and_attempt(&*store, spec(), 200).await;
    assert_eq!(unpartitioned(name), "2");
    harness.advance(3 * DAY).await;
    run_maintenance(&*store, keep(3)).await;
    assert_eq!(unpartitioned(name), "0", "old attempts are deleted from the default partition");
    assert!(store.event(&event_id).await.is_err());
}

#[tokio::test]
async fn a_transaction_that_reads_partitions_blocks_neither_maintenance_nor_settles() {
    let harness = PostgresHarness::start().await;
    let (store, name) = (harness.store(), &harness.database.name);
    run_maintenance(&*store, keep(3)).await;
    enqueue_and_attempt(&*store, spec(), 200).await;
    harness.advance(10 * DAY).await;
    let reader = client(&harness.database.url).await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM app.webhook_attempts").await.unwrap();
    let before = days(name);

    let maintenance = tokio::spawn({
        let store = harness.store();
        async move { store.maintain(&keep(3)).await }
    });
    // A settle waits for at most one DDL statement, whose lock timeout is short.
    let mut settles = 0;
    while !maintenance.is_finished() || settles < 5 {
        let settling = enqueue_and_attempt(&*store, spec(), 200);
        expect_soon("a settle does not wait for the reader", settling).await;
        settles += 1;
    }
    expect_soon("maintenance ends", maintenance).await.unwrap().expect("maintenance skips locked partitions");
    assert_eq!(days(name), before, "the reader holds locks on the partitions");

    reader.batch_execute("COMMIT").await.unwrap();
    run_maintenance(&*store, keep(3)).await;
    // Today's attempts are in the default partition.
    assert_eq!(days(name), "1 2 3");
    enqueue(&*store, spec()).await;
    assert_eq!(settle(&*store, &claim(&*store).await, 200).await, [SettleResult::Applied]);
}

#[tokio::test]
async fn delivered_events_are_removed_while_idempotency_keys_expire_at_the_full_rate() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let event_id = enqueue_and_attempt(&*store, spec(), 200).await;
    let expired_keys =
        "INSERT INTO app.webhook_idempotency (key, fingerprint, expires_at, created_at, event_ids)
                        SELECT n, '', '-infinity', '-infinity', '{}' FROM generate_series(1, 100) n";
    client(&harness.database.url).await.batch_execute(expired_keys).await.unwrap();
    let step = Retention { rows_max: 2, ..keep(3) };
    assert!(run_maintenance(&*store, step).await.has_more, "keys are left");
    assert!(store.event(&event_id).await.is_ok());
    harness.advance(5 * DAY).await;
    for _ in 0..4 {
        assert!(run_maintenance(&*store, step).await.has_more, "keys are left");
    }
    assert!(store.event(&event_id).await.is_err());
}

#[tokio::test]
async fn a_list_of_delivered_events_continues_past_removed_ones() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut expected = Vec::new();
    for _ in 0..6 {
        expected.push(enqueue_and_attempt(&*store, spec(), 200).await);
    }
    // Retention removes an event before the partition of its attempts is dropped.
    for removed in expected.splice(2..5, []) {
        let sql = "DELETE FROM app.webhook_events WHERE event_id = $1";
        client(&harness.database.url).await.execute(sql, &[&removed.as_str()]).await.unwrap();
    }
    expected.reverse();
    let query = EventQuery {
        status: Some(DeliveryStatus::Delivered),
        examine: ExamineLimit::new(2),
        ..EventQuery::default()
    };
    let (mut listed, mut page) = (Vec::new(), PageRequest::default());
    for _ in 0..10 {
        let found = store.events(&query, &page).await.expect("the store is up");
        listed.extend(found.items.into_iter().map(|event| event.event_id));
        let Some(next) = found.next else { break };
        page.after = Some(next);
    }
    assert_eq!(listed, expected);
}
