//! A database that turns out to be damaged while a store has it open.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use posthaste_store::{DeadLetterQuery, PageRequest, Store as _, StoreError};
use posthaste_store_sqlite::{Options, SqliteStore, check, system_rng};

use crate::support::{Fixture, claim, enqueue, event, settlement, worker};

/// Overwrites the first page of a table or index in a closed database, and opens the database again.
async fn damaged_store(relation: &str) -> (Fixture, SqliteStore) {
    let fixture = Fixture::new();
    enqueue(&fixture.store, vec![event()]).await;
    assert!(fixture.store.close());
    let page: u64 = {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        let db = fixture.sql();
        let page: i64 = db.query_row(sql, [relation], |row| row.get(0)).unwrap();
        page.unsigned_abs()
    };
    let file = OpenOptions::new().write(true).open(&fixture.path).unwrap();
    file.write_all_at(&[0xff; 4_096], (page - 1) * 4_096).unwrap();
    let random = system_rng().unwrap();
    let store = SqliteStore::open(&fixture.path, fixture.clock.clone(), random, Options::default()).unwrap();
    (fixture, store)
}

#[track_caller]
fn assert_damaged(error: &StoreError) {
    assert!(error.to_string().contains("outbox.db is damaged"), "{error}");
}

#[tokio::test]
async fn a_read_that_finds_damage_makes_the_health_check_fail() {
    let (_fixture, store) = damaged_store("webhook_failures_updated_at").await;
    store.health().await.unwrap();
    let error = store.dead_letters(&DeadLetterQuery::all(), &PageRequest::default()).await.unwrap_err();
    assert_damaged(&error);
    assert_eq!(store.health().await.unwrap_err(), error);
}

#[tokio::test]
async fn a_write_that_finds_damage_makes_the_health_check_fail_although_other_writes_succeed() {
    let (_fixture, store) = damaged_store("webhook_notices").await;
    let lease = store.claim(&claim()).await.unwrap().leases.remove(0);
    let error = store.settle(&worker(), &[settlement(&lease, 200)]).await.unwrap_err();
    assert_damaged(&error);
    for _ in 0..2 {
        assert_eq!(store.health().await.unwrap_err(), error);
        enqueue(&store, vec![event()]).await;
    }
}

#[tokio::test]
async fn a_check_of_the_file_finds_damage_that_no_call_has_met() {
    let (fixture, store) = damaged_store("webhook_audit").await;
    store.health().await.unwrap();
    let found = check(&fixture.path, Duration::from_secs(60)).unwrap();
    assert!(!found.problems.is_empty(), "{found:?}");
}
