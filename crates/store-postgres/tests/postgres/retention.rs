//! Attempt records by day: partitions made ahead, dropped whole, and never in dispatch's way.

use posthaste_postgres_server::PostgresServer;
use posthaste_store::{Maintained, Retention, Settled, Store};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::support::PostgresHarness;

fn keep(days: u32) -> Retention {
    Retention { keep: Some(days * DAY), rows_max: 1_000 }
}

/// Days with a partition, relative to the server's today.
fn days(database: &str) -> String {
    let sql = "SELECT string_agg((to_date(right(relname, 8), 'YYYYMMDD')
                                  - (app.webhook_now() AT TIME ZONE 'UTC')::date)::text, ' ' ORDER BY relname)
               FROM pg_class WHERE relname ~ '^webhook_attempts_[0-9]{8}$'";
    say(PostgresServer::shared(), database, sql)
}

fn others(database: &str) -> String {
    say(PostgresServer::shared(), database, "SELECT count(*) FROM app.webhook_attempts_other")
}

async fn maintained(store: &dyn Store, retention: Retention) -> Maintained {
    soon("maintenance waits for nobody", store.maintain(&retention)).await.expect("the store is up")
}

#[tokio::test]
async fn days_ahead_have_their_partitions_once_the_store_is_open() {
    let database = PostgresServer::shared().create_database("partitions");
    let store = open(&database.url).await;
    assert_eq!(days(&database.name), "0 1 2 3");
    attempted(&store, spec(), 200).await;
    assert_eq!(others(&database.name), "0");
}

#[tokio::test]
async fn maintenance_makes_partitions_ahead_and_drops_those_that_are_over() {
    let harness = PostgresHarness::start().await;
    let (store, name) = (harness.store(), &harness.database.name);
    maintained(&*store, keep(3)).await;
    assert_eq!(days(name), "0 1 2 3");
    let event_id = attempted(&*store, spec(), 500).await;
    harness.advance(2 * DAY).await;
    maintained(&*store, keep(3)).await;
    assert_eq!(days(name), "-2 -1 0 1 2 3", "two days are not three");
    assert_eq!(store.event(&event_id).await.unwrap().history.len(), 1);
    harness.advance(3 * DAY).await;
    maintained(&*store, keep(3)).await;
    assert_eq!(days(name), "-3 -2 -1 0 1 2 3", "a day goes when all of it is over");
    let detail = store.event(&event_id).await.unwrap();
    assert_eq!(
        (detail.event.attempts, detail.history.len()),
        (1, 0),
        "the event stays, its old attempt does not"
    );
}

#[tokio::test]
async fn without_retention_nothing_is_dropped() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let event_id = attempted(&*store, spec(), 200).await;
    for _ in 0..3 {
        harness.advance(100 * DAY).await;
        maintained(&*store, Retention { keep: None, rows_max: 1_000 }).await;
    }
    assert_eq!(store.event(&event_id).await.unwrap().history.len(), 1);
}

#[tokio::test]
async fn a_day_without_a_partition_is_settled_on_and_maintenance_copes() {
    let harness = PostgresHarness::start().await;
    let (store, name) = (harness.store(), &harness.database.name);
    let event_id = attempted(&*store, spec(), 200).await;
    assert_eq!(others(name), "1", "the template's store has made no partitions");
    // Today's partition cannot be made: today's records are elsewhere. The next days' can.
    maintained(&*store, keep(3)).await;
    assert_eq!(days(name), "1 2 3");
    attempted(&*store, spec(), 200).await;
    assert_eq!(store.event(&event_id).await.unwrap().history.len(), 1);
    harness.advance(DAY).await;
    attempted(&*store, spec(), 200).await;
    assert_eq!(others(name), "2");
    harness.advance(3 * DAY).await;
    maintained(&*store, keep(3)).await;
    assert_eq!(others(name), "0", "what is old goes from there as well");
    assert!(store.event(&event_id).await.is_err());
}

#[tokio::test]
async fn a_reader_of_a_partition_blocks_neither_maintenance_nor_dispatch() {
    let harness = PostgresHarness::start().await;
    let (store, name) = (harness.store(), &harness.database.name);
    maintained(&*store, keep(3)).await;
    attempted(&*store, spec(), 200).await;
    harness.advance(10 * DAY).await;
    let reader = client(&harness.database.url).await;
    reader.batch_execute("BEGIN; SELECT count(*) FROM app.webhook_attempts").await.unwrap();
    let before = days(name);

    let maintenance = tokio::spawn({
        let store = harness.store();
        async move { store.maintain(&keep(3)).await }
    });
    // Each settle waits for one change of the schema at most, and that gives up at once.
    let mut settles = 0;
    while !maintenance.is_finished() || settles < 5 {
        let settling = attempted(&*store, spec(), 200);
        soon("a settle waits for no reader", settling).await;
        settles += 1;
    }
    soon("maintenance ends", maintenance).await.unwrap().expect("what cannot be done now is left");
    assert_eq!(days(name), before, "the reader still reads them");

    reader.batch_execute("COMMIT").await.unwrap();
    maintained(&*store, keep(3)).await;
    // Today has its records elsewhere.
    assert_eq!(days(name), "1 2 3");
    enqueue(&*store, spec()).await;
    assert_eq!(settle(&*store, &claim(&*store).await, 200).await, [Settled::Applied]);
}
