//! Closing: everything is in the file afterwards, whoever else still holds a handle.

use posthaste_store::{Store as _, StoreError};
use posthaste_store_sqlite::rusqlite::{Connection, OpenFlags};

use crate::support::{Fixture, enqueue, event};

#[tokio::test]
async fn a_store_that_is_closed_leaves_everything_in_its_file() {
    let fixture = Fixture::new();
    // Tasks that go on beside a service that ends have handles too.
    let handle = fixture.store.clone();
    enqueue(&handle, vec![event(), event(), event()]).await;
    assert_eq!(handle.overview().await.unwrap().pending, 3, "a reader has been there as well");
    assert!(fixture.path.with_extension("db-wal").metadata().unwrap().len() > 0);

    assert!(fixture.store.close());
    assert!(!fixture.path.with_extension("db-wal").exists(), "what is left there is missing from a copy");
    let copy = fixture.path.with_extension("copy");
    std::fs::copy(&fixture.path, &copy).unwrap();
    let copy = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let events: i64 = copy.query_row("SELECT count(*) FROM webhook_events", [], |row| row.get(0)).unwrap();
    assert_eq!(events, 3);
}

#[tokio::test]
async fn the_last_handle_that_is_dropped_closes_as_well() {
    let fixture = Fixture::new();
    enqueue(&fixture.store, vec![event()]).await;
    fixture.store.overview().await.unwrap();
    let Fixture { store, path, _directory, .. } = fixture;
    drop(store);
    assert!(!path.with_extension("db-wal").exists());
}

#[tokio::test]
async fn a_closed_store_says_so_and_may_be_closed_again() {
    let fixture = Fixture::new();
    assert!(fixture.store.close() && fixture.store.close());
    let answers = [fixture.store.overview().await.map(drop), fixture.store.release(&[]).await];
    for answer in answers {
        let Err(StoreError::Unavailable { reason }) = answer else { panic!("{answer:?}") };
        assert!(reason.contains("closed"), "{reason}");
    }
}
