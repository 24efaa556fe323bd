//! A check of a whole database file, for operators: every page, a write that is rolled back, and the size of the
//! write-ahead log.

use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rusqlite::{Connection, ErrorCode};

use crate::connect;
use crate::database_file::wal_path;
use crate::error::CallError;
use crate::open::{OpenError, Options, absolute_path};
use crate::write_probe;

/// Number of problems that a check reports; a damaged file can have thousands.
const PROBLEMS_MAX: usize = 5;

/// The result of a check of a file that can be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCheck {
    /// What SQLite's `quick_check` found, in its words; empty if the file is intact.
    pub problems: Vec<String>,
    /// Whether all pages were checked within the limit.
    pub is_complete: bool,
    /// Size of the write-ahead log.
    pub wal_bytes: u64,
}

/// Checks an existing database file whose schema is current. Reads for at most `limit`, because the write-ahead log
/// grows while a reader holds it.
pub fn check(path: impl AsRef<Path>, limit: Duration) -> Result<FileCheck, OpenError> {
    let path = absolute_path(path.as_ref())?;
    let sqlite = |error| OpenError::from_sqlite(error, &path);
    let db = connect::open_writer(&path, Options::default().busy_timeout)?;
    let wal_bytes = wal_path(&path).and_then(|wal| wal.metadata()).map_or(0, |wal| wal.len());
    match write_probe::probe_write(&db) {
        Ok(()) => {}
        Err(CallError::Sqlite(error)) => return Err(sqlite(error)),
        Err(CallError::Refused(error)) => unreachable!("the ids of the trial are unused: {error}"),
    }
    let (problems, is_complete) = match interrupt_after(&db, limit, quick_check) {
        Ok(problems) => (problems, true),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => (Vec::new(), false),
            // Some damage ends the check itself.
            Some(ErrorCode::DatabaseCorrupt) => (vec![error.to_string()], false),
            _ => return Err(sqlite(error)),
        },
    };
    Ok(FileCheck { problems, is_complete, wal_bytes })
}

/// Reads every page and returns what is wrong with the file.
fn quick_check(db: &Connection) -> rusqlite::Result<Vec<String>> {
    let mut check = db.prepare(&format!("PRAGMA quick_check({PROBLEMS_MAX})"))?;
    let problems: Vec<String> = check.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    Ok(if problems == ["ok"] { Vec::new() } else { problems })
}

/// Runs a query on a connection and interrupts it after `limit`.
fn interrupt_after<T>(db: &Connection, limit: Duration, query: impl FnOnce(&Connection) -> T) -> T {
    let handle = db.get_interrupt_handle();
    let (finished, is_finished) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            if is_finished.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                handle.interrupt();
            }
        });
        let result = query(db);
        drop(finished);
        result
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrate;

    #[test]
    fn a_check_ends_at_its_limit() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        migrate(&path).unwrap();
        let db = Connection::open(&path).unwrap();
        let endless =
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n";
        let counted = interrupt_after(&db, Duration::from_millis(10), |db| {
            db.query_row(endless, [], |row| row.get::<_, i64>(0))
        });
        assert_eq!(counted.unwrap_err().sqlite_error_code(), Some(ErrorCode::OperationInterrupted));
        let found = check(&path, Duration::from_secs(60)).unwrap();
        assert!(found.is_complete && found.problems.is_empty(), "{found:?}");
    }
}
