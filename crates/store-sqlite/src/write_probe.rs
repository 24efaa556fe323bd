//! A trial write for a store whose last write failed: it finds out whether SQLite can write again.
//!
//! The trial is rolled back. An ordinary rollback never touches the disk, so the probe flushes its pages first, as a
//! commit does.

use rusqlite::Connection;

use crate::error::CallError;

/// Size of the trial payload: as large as an ordinary enqueue, because a smaller one may still fit on a disk that
/// refuses the enqueue.
const PAYLOAD_BYTES: i64 = 256 * 1024;

/// Writes a message to the disk and rolls it back. Returns the error of SQLite if it cannot write.
pub(crate) fn probe_write(db: &Connection) -> Result<(), CallError> {
    db.execute_batch("SAVEPOINT posthaste_write_probe")?;
    let written = write_and_flush(db);
    // Fails after some write errors, because SQLite has then ended the transaction itself.
    let rolled_back = db.execute_batch("ROLLBACK TO posthaste_write_probe; RELEASE posthaste_write_probe");
    Ok(written.and(rolled_back)?)
}

fn write_and_flush(db: &Connection) -> rusqlite::Result<()> {
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

    use crate::command::CommandKind;
    use crate::{Options, SqliteStore, SystemClock, system_rng};

    fn store(directory: &tempfile::TempDir) -> SqliteStore {
        let path = directory.path().join("outbox.db");
        SqliteStore::open(path, Arc::new(SystemClock), system_rng().unwrap(), Options::default()).unwrap()
    }

    /// Stops the file from growing, as on a full disk, or lets it grow again.
    async fn set_full(store: &SqliteStore, full: bool) {
        let pages = if full { 1 } else { 1_000_000 };
        let limit = move |db: &rusqlite::Connection| {
            db.query_row(&format!("PRAGMA max_page_count = {pages}"), [], |_| Ok(()))
        };
        store.write(CommandKind::Other, move |context| Ok(limit(context.db)?)).await.unwrap();
    }

    async fn enqueue(store: &SqliteStore) -> Result<(), StoreError> {
        let spec = NewEventSpec {
            destination_url: "https://receiver.example/hook".to_owned(),
            event_type: "invoice.paid".to_owned(),
            payload: format!("\"{}\"", "x".repeat(100_000)).into(),
            ..NewEventSpec::default()
        };
        let events = vec![NewEvent::accept(spec, 1 << 20, 6).unwrap()];
        store.enqueue(EnqueueRequest { events, idempotency: None }).await.map(drop)
    }

    #[tokio::test]
    async fn health_of_a_store_on_a_full_disk_fails_until_there_is_space() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        enqueue(&store).await.unwrap();
        set_full(&store, true).await;
        let disk_full = enqueue(&store).await.unwrap_err();
        assert!(
            disk_full.is_transient() && disk_full.to_string().contains("the disk is full"),
            "{disk_full}"
        );
        for _ in 0..2 {
            assert_eq!(store.health().await.unwrap_err(), disk_full);
            // A call that writes nothing succeeds on a full disk and does not end the failing state.
            store.release(&[]).await.unwrap();
        }
        set_full(&store, false).await;
        store.health().await.unwrap();
        assert!(!store.shared.writer.is_failing(), "the successful probe ends the failing state");
        enqueue(&store).await.unwrap();
    }

    #[tokio::test]
    async fn a_write_probe_reaches_the_disk_and_leaves_no_row() {
        let directory = tempfile::tempdir().unwrap();
        let store = store(&directory);
        store.write(CommandKind::Other, |context| super::probe_write(context.db)).await.unwrap();
        let messages = "SELECT count(*) FROM webhook_messages";
        let count = |db: &rusqlite::Connection| db.query_row(messages, [], |row| row.get::<_, i64>(0));
        assert_eq!(store.read(move |db| Ok(count(db)?)).await.unwrap(), 0);
        let wal_bytes = directory.path().join("outbox.db-wal").metadata().unwrap().len();
        assert!(wal_bytes > super::PAYLOAD_BYTES.unsigned_abs(), "the WAL holds only {wal_bytes} bytes");
        enqueue(&store).await.unwrap();
        assert_eq!(store.read(move |db| Ok(count(db)?)).await.unwrap(), 1);
    }
}
