//! A checkpoint that makes room on a full disk.
//!
//! The write-ahead log holds many versions of the pages that change most, and every commit adds to it until the next
//! checkpoint. A full disk refuses that, although the space that the log occupies would be enough for the pages alone.

use std::time::Duration;

use rusqlite::Connection;

/// Copies the write-ahead log into the database and empties it. Returns false if it still holds pages: a reader needs
/// them, or the database cannot grow either.
pub(crate) fn empty_log(db: &Connection) -> bool {
    let emptied = empty_without_waiting(db);
    match &emptied {
        Ok(emptied) => tracing::debug!(emptied, "checkpoint on a full disk"),
        Err(error) => tracing::debug!(%error, "no checkpoint on a full disk"),
    }
    emptied.unwrap_or(false)
}

/// Does not wait for readers and other writers, because renewals wait for this call.
fn empty_without_waiting(db: &Connection) -> rusqlite::Result<bool> {
    let busy_timeout_ms: u32 = db.query_row("PRAGMA busy_timeout", [], |row| row.get(0))?;
    db.busy_timeout(Duration::ZERO)?;
    let is_busy = db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
    db.busy_timeout(Duration::from_millis(busy_timeout_ms.into()))?;
    Ok(!is_busy?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect;

    #[test]
    fn a_log_that_no_reader_needs_is_emptied_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        let db = connect::open_writer(&path, Duration::from_secs(60)).unwrap();
        db.execute_batch("CREATE TABLE numbers (n); INSERT INTO numbers VALUES (1)").unwrap();
        let wal_bytes = || path.with_extension("db-wal").metadata().unwrap().len();
        let reader = connect::open_reader(&path, Duration::ZERO).unwrap();
        let snapshot = reader.unchecked_transaction().unwrap();
        snapshot.query_row("SELECT n FROM numbers", [], |_| Ok(())).unwrap();
        db.execute_batch("INSERT INTO numbers VALUES (2)").unwrap();
        assert!(!empty_log(&db), "the reader still needs the log");
        assert!(wal_bytes() > 0);
        snapshot.finish().unwrap();
        assert!(empty_log(&db));
        assert_eq!(wal_bytes(), 0);
        let timeout: i64 = db.query_row("PRAGMA busy_timeout", [], |row| row.get(0)).unwrap();
        assert_eq!(timeout, 60_000, "the connection waits for other writers again");
    }
}
