//! Whether SQLite can write at all, for a store whose last write failed.
//!
//! Nothing is kept of it. What is rolled back in the ordinary way never comes near the disk, so the pages are written
//! out first, as a commit would.

use rusqlite::Connection;

use crate::fault::Fault;

/// As much as an ordinary enqueue could need: less might find room where an enqueue does not.
const PAYLOAD_BYTES: i64 = 256 * 1024;

pub(crate) fn rehearse(db: &Connection) -> Result<(), Fault> {
    db.execute_batch("SAVEPOINT posthaste_rehearsal")?;
    let written = write_out(db);
    let undone = db.execute_batch("ROLLBACK TO posthaste_rehearsal; RELEASE posthaste_rehearsal");
    // Where the write failed, so may this: SQLite has then ended the transaction by itself.
    Ok(written.and(undone)?)
}

fn write_out(db: &Connection) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_messages (id, event_type, content_type, created_at, payload)
         VALUES (zeroblob(16), '', '', 0, zeroblob(?1))",
    )?
    .execute([PAYLOAD_BYTES])?;
    db.cache_flush()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use posthaste_domain::{NewEvent, NewEventSpec};
    use posthaste_store::{EnqueueRequest, Store as _, StoreError};

    use crate::call::Kind;
    use crate::{Options, SqliteStore, SystemClock, entropy};

    fn store(directory: &tempfile::TempDir) -> SqliteStore {
        let path = directory.path().join("outbox.db");
        SqliteStore::open(path, Arc::new(SystemClock), entropy().unwrap(), Options::default()).unwrap()
    }

    /// The file gets no larger than it is, as on a full disk, or may grow again.
    async fn set_full(store: &SqliteStore, full: bool) {
        let pages = if full { 1 } else { 1_000_000 };
        let limit = move |db: &rusqlite::Connection| {
            db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        };
        store.write(Kind::Other, move |writing| Ok(limit(writing.db)?)).await.unwrap();
    }

    async fn enqueue(store: &SqliteStore) -> Result<(), StoreError> {
        let spec = NewEventSpec {
            destination_url: "https://receiver.example/hook".to_owned(),
            event_type: "invoice.paid".to_owned(),
            payload: format!("\"{}\"", "x".repeat(100_000)).into(),
            ..NewEventSpec::default()
        };
        let events = vec![NewEvent::accept(spec, 1 << 20, 6).unwrap()];
        store.enqueue(&[EnqueueRequest { events, idempotency: None }]).await.map(drop)
    }

    #[tokio::test]
    async fn a_store_whose_disk_is_full_has_no_vitals_until_there_is_room() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        enqueue(&store).await.unwrap();
        set_full(&store, true).await;
        let told = enqueue(&store).await.unwrap_err();
        assert!(told.is_transient() && told.to_string().contains("the disk is full"), "{told}");
        for _ in 0..2 {
            assert_eq!(store.vitals().await.unwrap_err(), told);
            // What writes nothing succeeds, and says nothing of the disk.
            store.release(&[]).await.unwrap();
        }
        set_full(&store, false).await;
        store.vitals().await.unwrap();
        assert!(!store.shared.writer.is_failing(), "and is not rehearsed again");
        enqueue(&store).await.unwrap();
    }

    #[tokio::test]
    async fn a_rehearsal_leaves_nothing_behind() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        store.write(Kind::Other, |writing| super::rehearse(writing.db)).await.unwrap();
        let messages = "SELECT count(*) FROM webhook_messages";
        let count = |db: &rusqlite::Connection| db.query_row(messages, [], |row| row.get::<_, i64>(0));
        assert_eq!(store.read(move |db| Ok(count(db)?)).await.unwrap(), 0);
        let log = directory.path().join("outbox.db-wal").metadata().unwrap().len();
        assert!(log > super::PAYLOAD_BYTES.unsigned_abs(), "it came to the disk: {log}");
        enqueue(&store).await.unwrap();
        assert_eq!(store.read(move |db| Ok(count(db)?)).await.unwrap(), 1);
    }
}
