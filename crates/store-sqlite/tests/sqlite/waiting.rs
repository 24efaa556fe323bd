//! Every call is answered, whoever else holds the file.

use std::time::Duration;

use posthaste_store::{HeldLease, Store as _, StoreError};
use posthaste_store_sqlite::Options;

use crate::support::{Fixture, claim, enqueue, event};

fn impatient(busy_timeout: Duration, answer_within: Duration) -> Fixture {
    Fixture::with(Options { busy_timeout, answer_within })
}

#[tokio::test]
async fn a_call_that_another_process_holds_up_is_answered_and_the_next_succeeds() {
    let fixture = impatient(Duration::from_millis(20), Duration::from_secs(20));
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
async fn a_call_that_nobody_answers_is_given_up() {
    let fixture = impatient(Duration::from_secs(30), Duration::from_millis(20));
    let other = fixture.sql();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = fixture.store.claim(&claim()).await.unwrap_err();
    assert!(error.is_transient() && error.to_string().contains("did not answer within"), "{error}");
    other.execute_batch("ROLLBACK").unwrap();
}

#[tokio::test]
async fn what_was_acknowledged_is_there_when_the_file_is_opened_again() {
    let fixture = Fixture::new();
    let ids = enqueue(&fixture.store, vec![event(); 3]).await;
    let Fixture { store, clock, path, .. } = &fixture;
    let lease = store.claim(&claim()).await.unwrap().leases.remove(0);
    let random = posthaste_store_sqlite::entropy().unwrap();
    let again =
        posthaste_store_sqlite::SqliteStore::open(path, clock.clone(), random, Options::default()).unwrap();
    for id in &ids {
        again.event(id).await.unwrap();
    }
    let lost = again.renew(&[HeldLease::from(&lease)], Duration::from_secs(60)).await;
    assert_eq!(lost, Ok::<_, StoreError>(Vec::new()), "a lease holds for every handle");
}
