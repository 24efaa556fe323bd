//! Connections, and what each is told before it is used.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::open::OpenError;

/// Before this, a writer and a checkpoint could corrupt the file when the log was reset under them.
const SQLITE_MIN: i32 = 3_051_003;
/// Every statement of a connection stays prepared.
const STATEMENTS_KEPT: usize = 128;
/// How often switching a new file to the log is tried while others do the same.
const SWITCHES_MAX: usize = 50;

/// The page cache holds the indexes that claims and settles walk. No memory map: through one, an error of the disk
/// would be a signal that ends the process instead of an error that a caller can be told.
///
/// Checkpoints come every 32 MiB: a page that changes often is then copied once for many commits, and the log, which
/// is written over from its start, stays within what a restart reads in a moment.
const WRITER_SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA mmap_size = 0;
    PRAGMA cache_size = -32768;
    PRAGMA wal_autocheckpoint = 8192;
    PRAGMA journal_size_limit = 67108864;
";

const READER_SETTINGS: &str = "
    PRAGMA query_only = ON;
    PRAGMA temp_store = MEMORY;
    PRAGMA mmap_size = 0;
    PRAGMA cache_size = -16384;
";

/// A connection that may write; creates the file where there is none.
pub(crate) fn writer(path: &Path, busy_timeout: Duration) -> Result<Connection, OpenError> {
    check_version(rusqlite::version_number())?;
    check_place(path)?;
    create(path);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(|error| OpenError::of(error, path))?;
    check_writable(&db, path)?;
    settle_in(&db, busy_timeout).map_err(|error| OpenError::of(error, path))?;
    Ok(db)
}

fn settle_in(db: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    db.busy_timeout(busy_timeout)?;
    switch_to_log(db)?;
    keep_statements(db)?;
    db.execute_batch(WRITER_SETTINGS)
}

/// A plan depends on the statement alone: else SQLite would plan again whenever a parameter that could matter changes,
/// which on short statements costs as much as running them.
fn keep_statements(db: &Connection) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Two processes that switch a new file at once may both be refused without having waited. Whoever is refused waits for
/// the other's lock in a way that does wait, and tries again.
fn switch_to_log(db: &Connection) -> rusqlite::Result<()> {
    let mut switched = Ok(());
    for _ in 0..SWITCHES_MAX {
        switched = db.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        match &switched {
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
                db.execute_batch("BEGIN IMMEDIATE; ROLLBACK")?;
            }
            _ => return switched,
        }
    }
    switched
}

/// A connection that only reads, on a database that a writer has opened before.
pub(crate) fn reader(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(busy_timeout)?;
    keep_statements(&db)?;
    db.execute_batch(READER_SETTINGS)?;
    Ok(db)
}

fn check_version(version: i32) -> Result<(), OpenError> {
    if version < SQLITE_MIN {
        Err(OpenError::SqliteTooOld { found: version, least: SQLITE_MIN })
    } else {
        Ok(())
    }
}

/// SQLite would say "unable to open database file" to both.
fn check_place(path: &Path) -> Result<(), OpenError> {
    if path.is_dir() {
        return Err(OpenError::IsADirectory { path: path.to_owned() });
    }
    match path.parent() {
        Some(directory) if !directory.is_dir() => {
            Err(OpenError::NoDirectory { path: path.to_owned(), directory: directory.to_owned() })
        }
        _ => Ok(()),
    }
}

/// For its owner alone, because payloads and the signing secret are in it; what SQLite puts beside it is as readable as
/// the file is. One that is there keeps the mode that somebody gave it, and what cannot be created SQLite complains of.
fn create(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// A file without write permission is opened all the same, for reading.
fn check_writable(db: &Connection, path: &Path) -> Result<(), OpenError> {
    match db.is_readonly("main") {
        Ok(false) => Ok(()),
        Ok(true) => Err(OpenError::ReadOnly { path: path.to_owned() }),
        Err(error) => Err(OpenError::of(error, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sqlite_that_can_corrupt_the_log_is_refused() {
        assert!(check_version(rusqlite::version_number()).is_ok(), "the one that is built in is new enough");
        let error = check_version(3_051_002).unwrap_err().to_string();
        assert!(error.contains("3.51.2") && error.contains("3.51.3"), "{error}");
    }

    #[test]
    fn a_file_that_may_only_be_read_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        let db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let error = check_writable(&db, &path).unwrap_err().to_string();
        assert!(error.contains("outbox.db") && error.contains("write"), "{error}");
    }

    #[test]
    fn a_writer_flushes_every_commit_and_keeps_a_log() {
        let directory = tempfile::tempdir().unwrap();
        let db = writer(&directory.path().join("outbox.db"), Duration::from_secs(1)).unwrap();
        let setting = |pragma: &str| -> String {
            db.query_row(
                &format!("SELECT CAST(x AS TEXT) FROM (SELECT {pragma} AS x FROM pragma_{pragma})"),
                [],
                |row| row.get(0),
            )
            .unwrap()
        };
        assert_eq!(setting("journal_mode"), "wal");
        assert_eq!(setting("synchronous"), "2");
        assert_eq!(setting("foreign_keys"), "0");
    }
}
