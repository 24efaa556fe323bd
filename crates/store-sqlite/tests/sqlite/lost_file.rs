//! A database file that is deleted, moved or replaced while a store has it open: nothing is acknowledged into it.

use std::fs;

use posthaste_domain::EventId;
use posthaste_store::{EnqueueRequest, Store as _, StoreError};
use posthaste_store_sqlite::{Options, SqliteStore, system_rng};

use crate::support::{Fixture, attempt_all, enqueue, event};

async fn refusal(store: &SqliteStore) -> String {
    let request = EnqueueRequest::new(vec![event()]);
    let Err(StoreError::Unavailable { reason }) = store.enqueue(request).await else {
        panic!("the event was acknowledged");
    };
    assert_eq!(store.health().await, Err(StoreError::Unavailable { reason: reason.clone() }));
    reason
}

fn open(fixture: &Fixture) -> SqliteStore {
    SqliteStore::open(&fixture.path, fixture.clock.clone(), system_rng().unwrap(), Options::default())
        .unwrap()
}

async fn assert_only_events(store: &SqliteStore, ids: &[EventId]) {
    for id in ids {
        store.event(id).await.unwrap();
    }
    assert_eq!(store.overview().await.unwrap().pending, ids.len() as u64);
}

#[tokio::test]
async fn nothing_is_acknowledged_into_a_moved_file_until_it_is_back() {
    let fixture = Fixture::new();
    let id = enqueue(&fixture.store, vec![event()]).await.remove(0);
    let moved = fixture.path.with_extension("moved");
    fs::rename(&fixture.path, &moved).unwrap();
    let reason = refusal(&fixture.store).await;
    assert!(reason.contains("outbox.db was deleted") && reason.contains("move the file back"), "{reason}");

    fs::rename(&moved, &fixture.path).unwrap();
    fixture.store.health().await.unwrap();
    assert_only_events(&fixture.store, &[id]).await;
    assert_eq!(attempt_all(&fixture.store, 200).await, 1, "the refused event was not stored");
}

#[tokio::test]
async fn nothing_is_acknowledged_into_a_replaced_file() {
    let fixture = Fixture::new();
    enqueue(&fixture.store, vec![event()]).await;
    for suffix in ["db", "db-wal", "db-shm"] {
        fs::remove_file(fixture.path.with_extension(suffix)).unwrap();
    }
    let other = open(&fixture);
    let reason = refusal(&fixture.store).await;
    assert!(reason.contains("replaced"), "{reason}");
    // Readers of the first store do not read the other file either.
    let first_read = fixture.store.overview().await;
    assert!(first_read.is_err() || first_read.unwrap().pending == 1);
    other.health().await.unwrap();
    let id = enqueue(&other, vec![event()]).await.remove(0);
    assert_only_events(&other, &[id]).await;
}

#[tokio::test]
async fn a_clean_stop_saves_what_was_acknowledged_before_the_log_was_deleted() {
    let fixture = Fixture::new();
    let id = enqueue(&fixture.store, vec![event()]).await.remove(0);
    fs::remove_file(fixture.path.with_extension("db-wal")).unwrap();
    let reason = refusal(&fixture.store).await;
    assert!(reason.contains("outbox.db-wal was deleted") && reason.contains("SIGTERM"), "{reason}");
    assert!(fixture.store.close());
    assert_only_events(&open(&fixture), &[id]).await;
}
