//! A trial write: finds out whether SQLite can write all that an enqueue, a claim and a settle write.
//!
//! The trial is rolled back. An ordinary rollback never touches the disk, so the probe flushes its pages first, as a
//! commit does.

use posthaste_domain::Timestamp;
use posthaste_store::trial;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rusqlite::Connection;

use crate::error::CallError;
use crate::{claim, enqueue, settle};

/// Size of the trial payload: as large as an ordinary enqueue, because a smaller one may still fit on a disk that
/// refuses the enqueue.
const PAYLOAD_BYTES: usize = 256 * 1024;
/// Payload of a trial that stands for results, which are small.
const SMALL_PAYLOAD_BYTES: usize = 256;

/// Writes an event, a lease and a result to the disk and rolls them back. Returns the error of SQLite if it cannot write.
pub(crate) fn probe_write(db: &Connection) -> Result<(), CallError> {
    probe(db, PAYLOAD_BYTES)
}

/// Makes the same trial with a small payload.
pub(crate) fn probe_small_write(db: &Connection) -> Result<(), CallError> {
    probe(db, SMALL_PAYLOAD_BYTES)
}

fn probe(db: &Connection, payload_bytes: usize) -> Result<(), CallError> {
    db.execute_batch("SAVEPOINT posthaste_write_probe")?;
    let written = write_and_flush(db, payload_bytes);
    // Fails after some write errors, because SQLite has then ended the transaction itself.
    let rolled_back = db.execute_batch("ROLLBACK TO posthaste_write_probe; RELEASE posthaste_write_probe");
    written?;
    Ok(rolled_back?)
}

/// Writes with constant times and random numbers: no call sees the rows, and no event has the ids that these give.
fn write_and_flush(db: &Connection, payload_bytes: usize) -> Result<(), CallError> {
    let (now, mut random) = (Timestamp::default(), StdRng::seed_from_u64(0));
    let events = [trial::event(payload_bytes)];
    enqueue::enqueue_events(db, now, &mut random, &events, None)?;
    let lease = claim::claim_last_enqueued(db, now, &mut random, &trial::claim())?;
    settle::settle(db, now, &trial::worker(), &[trial::settlement(&lease)])?;
    Ok(db.cache_flush()?)
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
        store.enqueue(EnqueueRequest::new(events)).await.map(drop)
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
    async fn a_write_probe_names_what_is_missing() {
        for table in
            ["webhook_messages", "webhook_queue", "webhook_claims", "webhook_attempts", "webhook_notices"]
        {
            let directory = tempfile::tempdir().unwrap();
            let store = store(&directory);
            store.check_writes().await.unwrap();
            let rename = format!("ALTER TABLE {table} RENAME TO missing");
            let renamed = move |db: &rusqlite::Connection| db.execute_batch(&rename);
            store.write(CommandKind::Other, move |context| Ok(renamed(context.db)?)).await.unwrap();
            let refused = store.check_writes().await.unwrap_err();
            assert!(refused.to_string().contains(&format!("no such table: {table}")), "{refused}");
            assert!(!refused.is_transient() && store.health().await.unwrap_err() == refused, "{refused}");
        }
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
        assert!(
            wal_bytes > u64::try_from(super::PAYLOAD_BYTES).unwrap(),
            "the WAL holds only {wal_bytes} bytes"
        );
        enqueue(&store).await.unwrap();
        assert_eq!(store.read(move |db| Ok(count(db)?)).await.unwrap(), 1);
    }
}
