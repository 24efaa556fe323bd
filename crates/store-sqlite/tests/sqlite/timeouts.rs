//! Timeouts: every call returns, even while another process has locked the file.

use std::time::Duration;

use posthaste_store::{LeaseRef, Store as _, StoreError};
use posthaste_store_sqlite::Options;

use crate::support::{Fixture, claim, enqueue, event};

fn fixture_with_timeouts(busy_timeout: Duration, call_timeout: Duration) -> Fixture {
    Fixture::with(Options { busy_timeout, call_timeout })
}

#[tokio::test]
async fn a_call_fails_while_the_file_is_locked_and_the_next_succeeds() {
    let fixture = fixture_with_timeouts(Duration::from_millis(20), Duration::from_secs(20));
    let other = fixture.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = fixture.store.claim(&claim()).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("locked"), "{error}");
    let overview = fixture.store.overview().await;
    assert!(overview.is_ok(), "readers do not wait for writers: {overview:?}");
    other.execute_batch("ROLLBACK").unwrap();
    enqueue(&fixture.store, vec![event()]).await;
}

#[tokio::test]
async fn a_call_fails_after_the_call_timeout() {
    let fixture = fixture_with_timeouts(Duration::from_secs(30), Duration::from_millis(20));
    let other = fixture.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = fixture.store.claim(&claim()).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("did not respond within"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn acknowledged_events_and_leases_are_visible_to_a_second_store() {
    let fixture = Fixture::new();
    let ids = enqueue(&fixture.store, vec![event(); 3]).await;
    let Fixture { store, clock, path, .. } = &fixture;
    let lease = store.claim(&claim()).await.unwrap().leases.remove(0);
    let random = posthaste_store_sqlite::system_rng().unwrap();
    let second =
        posthaste_store_sqlite::SqliteStore::open(path, clock.clone(), random, Options::default()).unwrap();
    for id in &ids {
        second.event(id).await.unwrap();
    }
    let lost = second.renew(&[LeaseRef::from(&lease)], Duration::from_secs(60)).await;
    assert_eq!(lost, Ok::<_, StoreError>(Vec::new()), "a lease is valid in every store on the file");
}
