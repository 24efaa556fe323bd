//! Enqueueing inside the caller's transaction, beside business tables in the same file.

use crate::support::{Fixture, claim, enqueue, event, new_event, spec};
use posthaste_store::{Store as _, StoreError};

fn orders(fixture: &Fixture) -> posthaste_store_sqlite::rusqlite::Connection {
    let db = fixture.sql();
    db.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)").unwrap();
    db
}

#[tokio::test]
async fn an_event_of_a_callers_transaction_exists_once_it_commits() {
    let fixture = Fixture::new();
    let mut db = orders(&fixture);
    let transaction = db.transaction().unwrap();
    transaction.execute("INSERT INTO orders (id) VALUES (17)", []).unwrap();
    let receipts = fixture.store.enqueue_in(&transaction, &[event(), event()]).unwrap();
    let unseen = fixture.store.event(&receipts[0].event_id).await;
    assert!(matches!(unseen, Err(StoreError::EventNotFound { .. })), "{unseen:?}");
    transaction.commit().unwrap();

    for receipt in &receipts {
        let event = fixture.store.event(&receipt.event_id).await.unwrap().event;
        assert_eq!((event.created_at, event.status), (receipt.created_at, receipt.status));
    }
    assert_eq!(fixture.store.overview().await.unwrap().pending, 2);
    assert_eq!(fixture.store.claim(&claim()).await.unwrap().leases.len(), 2);
}

#[tokio::test]
async fn a_callers_rollback_leaves_no_event() {
    let fixture = Fixture::new();
    let mut db = orders(&fixture);
    let transaction = db.transaction().unwrap();
    transaction.execute("INSERT INTO orders (id) VALUES (17)", []).unwrap();
    let receipts = fixture.store.enqueue_in(&transaction, &[event()]).unwrap();
    transaction.rollback().unwrap();

    assert!(fixture.store.event(&receipts[0].event_id).await.is_err());
    assert_eq!(fixture.store.overview().await.unwrap().pending, 0);
    for table in [
        "orders",
        "webhook_messages",
        "webhook_events",
        "webhook_queue",
        "webhook_first_attempts",
        "webhook_destinations",
    ] {
        let rows: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, 0, "{table}");
    }
}

#[tokio::test]
async fn a_refused_event_leaves_the_callers_transaction_unchanged() {
    let fixture = Fixture::new();
    let named = |name: &str| {
        let mut named = spec("https://receiver.example/hook");
        named.event_id = Some(name.to_owned());
        new_event(named)
    };
    let taken = enqueue(&fixture.store, vec![named("taken")]).await.remove(0);
    let mut db = orders(&fixture);
    let transaction = db.transaction().unwrap();
    transaction.execute("INSERT INTO orders (id) VALUES (17)", []).unwrap();
    let refused = fixture.store.enqueue_in(&transaction, &[named("fresh"), named("taken")]);
    assert_eq!(refused, Err(StoreError::EventIdTaken { event_id: taken }));
    fixture.store.enqueue_in(&transaction, &[named("fresh")]).unwrap();
    transaction.commit().unwrap();
    let orders: i64 = db.query_row("SELECT count(*) FROM orders", [], |row| row.get(0)).unwrap();
    assert_eq!((orders, fixture.store.overview().await.unwrap().pending), (1, 2));
}

#[tokio::test]
async fn a_failed_enqueue_is_undone_and_the_rest_of_the_transaction_commits() {
    let fixture = Fixture::new();
    let mut db = orders(&fixture);
    db.execute_batch(
        "CREATE TRIGGER second_event_fails BEFORE INSERT ON webhook_events
         WHEN (SELECT count(*) FROM webhook_events) = 1
         BEGIN SELECT RAISE(ABORT, 'the second event fails'); END",
    )
    .unwrap();
    let transaction = db.transaction().unwrap();
    transaction.execute("INSERT INTO orders (id) VALUES (17)", []).unwrap();
    let error = fixture.store.enqueue_in(&transaction, &[event(), event()]).unwrap_err();
    assert!(error.to_string().contains("the second event fails"), "{error}");
    transaction.commit().unwrap();
    for (table, expected) in
        [("orders", 1), ("webhook_messages", 0), ("webhook_events", 0), ("webhook_queue", 0)]
    {
        let rows: i64 = db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap();
        assert_eq!(rows, expected, "{table}");
    }
}

#[tokio::test]
async fn a_transaction_on_a_file_without_the_outbox_is_refused() {
    let fixture = Fixture::new();
    let mut other_database = posthaste_store_sqlite::rusqlite::Connection::open_in_memory().unwrap();
    let transaction = other_database.transaction().unwrap();
    let error = fixture.store.enqueue_in(&transaction, &[event()]).unwrap_err();
    assert!(!error.is_transient() && error.to_string().contains("no such table"), "{error}");
}

#[tokio::test]
async fn a_caller_can_wake_the_workers_after_its_commit() {
    let fixture = Fixture::new();
    let mut wakeups = fixture.store.wakeups();
    fixture.store.wake();
    wakeups.wait().await;
}
