//! `enqueue_in`: an event exists exactly if its producer's transaction commits.

use posthaste_postgres_server::PostgresServer;
use posthaste_store::Overview;
use posthaste_store_conformance::Harness as _;
use posthaste_store_postgres::{CallerError, enqueue_in};

use crate::fixture::*;
use crate::support::PostgresHarness;

const TABLES: [&str; 4] = ["webhook_events", "webhook_queue", "webhook_counts", "webhook_destinations"];

/// The number of rows in each table that an enqueue writes to.
fn rows(harness: &PostgresHarness) -> String {
    let counts = TABLES.map(|table| format!("(SELECT count(*) FROM app.{table})"));
    query_text(PostgresServer::shared(), &harness.database.name, &format!("SELECT {}", counts.join(", ")))
}

#[tokio::test]
async fn a_committed_event_is_claimable_and_wakes_every_store() {
    let harness = PostgresHarness::start().await;
    let (store, second) = (harness.store(), harness.second_handle());
    for store in [&store, &second] {
        assert_eq!(event_ids(&claim(&**store).await), [""; 0], "the store is empty");
    }
    let mut client = client(&harness.database.url).await;
    let transaction = client.transaction().await.unwrap();
    let receipts = enqueue_in(&transaction, &[new_event(spec())]).await.unwrap();
    wait_until_listening(&harness).await;
    let mut wakeups = [store.wakeups(), second.wakeups()];
    transaction.commit().await.unwrap();
    for wakeups in &mut wakeups {
        expect_soon("the subscriber is woken", wakeups.wait()).await;
    }
    let lease = claim_one(&*store).await;
    assert_eq!(lease.event_id, receipts[0].event_id);
    assert_eq!(lease.payload.expect_loaded(), new_event(spec()).payload());
    assert_eq!(event_ids(&claim(&*second).await), [""; 0]);
}

/// Waits until both stores of the harness listen, so that later wake-ups come from commits.
async fn wait_until_listening(harness: &PostgresHarness) {
    let client = client(&harness.database.url).await;
    let sql = "SELECT count(*) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'posthaste' AND state = 'idle'
                     AND query LIKE 'LISTEN %'";
    wait_until(TIMEOUT, "both stores listen", async || {
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) == 2
    })
    .await;
}

#[tokio::test]
async fn a_rolled_back_event_leaves_no_rows() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let before = rows(&harness);
    let mut client = client(&harness.database.url).await;
    let transaction = client.transaction().await.unwrap();
    enqueue_in(&transaction, &[new_event(spec()), new_event(spec_with_id("chosen"))]).await.unwrap();
    transaction.rollback().await.unwrap();

    assert_eq!(rows(&harness), before);
    assert_eq!(store.overview().await.unwrap(), Overview::default());
    assert_eq!(event_ids(&claim(&*store).await), [""; 0]);
    // The id can be used again.
    let transaction = client.transaction().await.unwrap();
    enqueue_in(&transaction, &[new_event(spec_with_id("chosen"))]).await.unwrap();
    transaction.commit().await.unwrap();
    assert_eq!(claim_one(&*store).await.event_id.as_str(), "chosen");
}

#[tokio::test]
async fn a_business_row_and_its_event_commit_together() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    let mut client = client(&harness.database.url).await;
    client.batch_execute("CREATE TABLE invoices (id integer PRIMARY KEY, state text)").await.unwrap();
    for (invoice, commits) in [(1, true), (2, false)] {
        let transaction = client.transaction().await.unwrap();
        transaction.execute("INSERT INTO invoices VALUES ($1, 'paid')", &[&invoice]).await.unwrap();
        enqueue_in(&transaction, &[new_event(spec_with_id(&format!("invoice-{invoice}")))]).await.unwrap();
        if commits {
            transaction.commit().await.unwrap();
        }
    }
    let invoices: Vec<i32> = client
        .query("SELECT id FROM invoices", &[])
        .await
        .unwrap()
        .iter()
        .map(|invoice| invoice.get(0))
        .collect();
    assert_eq!(invoices, [1]);
    assert_eq!(claim_one(&*store).await.event_id.as_str(), "invoice-1");
    assert_eq!(store.overview().await.unwrap().pending, 1);
}

#[tokio::test]
async fn several_events_are_stored_in_their_order_with_receipts() {
    let harness = PostgresHarness::start().await;
    let mut client = client(&harness.database.url).await;
    let names: Vec<String> = (0..20).map(|n| format!("event-{n}")).collect();
    let transaction = client.transaction().await.unwrap();
    for half in names.chunks(10) {
        let events: Vec<_> = half.iter().map(|name| new_event(spec_with_id(name))).collect();
        let receipts = enqueue_in(&transaction, &events).await.unwrap();
        let stored: Vec<&str> = receipts.iter().map(|receipt| receipt.event_id.as_str()).collect();
        assert_eq!(stored, half);
    }
    assert_eq!(enqueue_in(&transaction, &[]).await.unwrap(), []);
    transaction.commit().await.unwrap();
    assert_eq!(event_ids(&claim(&*harness.store()).await), names);
}

#[tokio::test]
async fn a_taken_event_id_is_a_typed_error() {
    let harness = PostgresHarness::start().await;
    enqueue(&*harness.store(), spec_with_id("taken")).await;
    let mut client = client(&harness.database.url).await;
    for events in [vec!["taken"], vec!["twice", "twice"]] {
        let events: Vec<_> = events.into_iter().map(|name| new_event(spec_with_id(name))).collect();
        let transaction = client.transaction().await.unwrap();
        let refused = enqueue_in(&transaction, &events).await.unwrap_err();
        assert!(matches!(refused, CallerError::EventIdTaken(_)), "{refused:?}");
        transaction.rollback().await.unwrap();
    }
    assert_eq!(event_ids(&claim(&*harness.store()).await), ["taken"]);
}

#[tokio::test]
async fn a_database_without_the_schema_is_a_typed_error() {
    let empty = PostgresServer::shared().create_database("without_schema");
    let mut client = client(&empty.url).await;
    let transaction = client.transaction().await.unwrap();
    let refused = enqueue_in(&transaction, &[new_event(spec())]).await.unwrap_err();
    assert!(matches!(refused, CallerError::NoSchema(_)), "{refused:?}");
    assert!(refused.to_string().contains("migrate"), "{refused}");
}
