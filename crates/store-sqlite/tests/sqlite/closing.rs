//! Closing a store: afterwards the file contains all data, even if other handles still exist.

use posthaste_store::{Store as _, StoreError};
use posthaste_store_sqlite::rusqlite::{Connection, OpenFlags};

use crate::support::{Fixture, enqueue, event};

#[tokio::test]
async fn a_closed_store_leaves_all_data_in_its_file() {
    let fixture = Fixture::new();
    // Tasks that still run while a service shuts down hold handles too.
    let handle = fixture.store.clone();
    enqueue(&handle, vec![event(), event(), event()]).await;
    assert_eq!(handle.overview().await.unwrap().pending, 3, "this starts a reader thread as well");
    assert!(fixture.path.with_extension("db-wal").metadata().unwrap().len() > 0);

    assert!(fixture.store.close());
    assert!(
        !fixture.path.with_extension("db-wal").exists(),
        "data left in the log would be missing from a copy of the file"
    );
    let copy = fixture.path.with_extension("copy");
    std::fs::copy(&fixture.path, &copy).unwrap();
    let copy = Connection::open_with_flags(copy, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let events: i64 = copy.query_row("SELECT count(*) FROM webhook_events", [], |row| row.get(0)).unwrap();
    assert_eq!(events, 3);
}

#[tokio::test]
async fn dropping_the_last_handle_closes_the_store() {
    let fixture = Fixture::new();
    enqueue(&fixture.store, vec![event()]).await;
    fixture.store.overview().await.unwrap();
    let Fixture { store, path, _directory, .. } = fixture;
    drop(store);
    assert!(!path.with_extension("db-wal").exists());
}

#[tokio::test]
async fn calls_on_a_closed_store_fail_and_closing_again_succeeds() {
    let fixture = Fixture::new();
    assert!(fixture.store.close() && fixture.store.close());
    let results = [fixture.store.overview().await.map(drop), fixture.store.release(&[]).await];
    for result in results {
        let Err(StoreError::Unavailable { reason }) = result else { panic!("{result:?}") };
        assert!(reason.contains("closed"), "{reason}");
    }
}
