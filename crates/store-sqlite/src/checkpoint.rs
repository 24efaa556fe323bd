//! Checkpoints, which copy the write-ahead log into the database so that the log can start again.
//!
//! A thread with its own connection copies the log while the writer goes on committing. The log starts again with the
//! first commit that finds all of it copied. A writer that never pauses leaves such a moment to chance, so it pauses for a
//! few milliseconds when a short rest is left to copy. The thread then flushes the database file, which takes long on a
//! slow disk, beside the next commits. The writer copies the rest itself only when the log has become long.
//!
//! The log holds many versions of the pages that change most. A full disk refuses a longer log, although the space that the
//! log occupies would be enough for the pages alone: then [`empty_log`] makes room.

mod background;
mod requests;

pub(crate) use background::Checkpointer;

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

/// The state of the log, in pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct LogState {
    pages: i64,
    /// Pages that a checkpoint has copied into the database, from the start of the log.
    copied: i64,
}

/// How a checkpoint treats the writers and readers of the log.
#[derive(Debug, Clone, Copy)]
enum Checkpoint {
    /// Copies nothing.
    None,
    /// Copies the pages that no reader still needs, and waits for no other connection.
    Passive,
}

impl LogState {
    /// Runs a checkpoint and returns the state of the log after it.
    fn after(db: &Connection, checkpoint: Checkpoint) -> rusqlite::Result<Self> {
        let sql = match checkpoint {
            Checkpoint::None => "PRAGMA wal_checkpoint(NOOP)",
            Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        };
        db.prepare_cached(sql)?.query_row([], |row| Ok(Self { pages: row.get(1)?, copied: row.get(2)? }))
    }

    const fn is_copied(self) -> bool {
        self.copied >= self.pages
    }
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
