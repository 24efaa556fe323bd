//! Opens and configures connections.

use std::fs::OpenOptions;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::open::OpenError;

/// Oldest supported SQLite version, 3.51.3. In older versions, a checkpoint that resets the write-ahead log while
/// another connection writes can corrupt the file.
const SQLITE_MIN: i32 = 3_051_003;
/// Number of prepared statements that a connection keeps: more than there are distinct statements, so that every
/// statement stays prepared.
const STATEMENT_CACHE_CAPACITY: usize = 128;
/// Maximum number of attempts to switch a new file to WAL mode while other processes do the same.
const WAL_SWITCH_ATTEMPTS: usize = 50;

/// Settings of the writer's connection. The page cache is large enough for the indexes that claims and settles search, and
/// not larger: SQLite walks through all of it at a commit that has split a page. Memory mapping is off: with it, a disk error
/// would be a signal that ends the process instead of an error for the caller.
///
/// Commits run no checkpoint: `checkpoint.rs` does. It keeps the write-ahead log, which is overwritten from its start, short
/// enough to be read quickly at a restart.
const WRITER_SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA foreign_keys = OFF;
    PRAGMA temp_store = MEMORY;
    PRAGMA mmap_size = 0;
    PRAGMA cache_size = -16384;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
";

/// Settings of the connection that runs checkpoints. It has no cache, because a checkpoint reads the log without it.
const CHECKPOINTER_SETTINGS: &str = "
    PRAGMA synchronous = FULL;
    PRAGMA mmap_size = 0;
    PRAGMA cache_size = 10;
    PRAGMA wal_autocheckpoint = 0;
    PRAGMA journal_size_limit = 67108864;
";

const READER_SETTINGS: &str = "
    PRAGMA query_only = ON;
    PRAGMA temp_store = MEMORY;
    PRAGMA mmap_size = 0;
    PRAGMA cache_size = -16384;
";

/// Opens a connection for the writer thread; creates the file if it does not exist.
pub(crate) fn open_writer(path: &Path, busy_timeout: Duration) -> Result<Connection, OpenError> {
    check_version(rusqlite::version_number())?;
    check_location(path)?;
    create_private_file(path);
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags).map_err(|error| OpenError::from_sqlite(error, path))?;
    check_writable(&db, path)?;
    configure_writer(&db, busy_timeout).map_err(|error| OpenError::from_sqlite(error, path))?;
    Ok(db)
}

fn configure_writer(db: &Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    db.busy_timeout(busy_timeout)?;
    enable_wal(db)?;
    configure_statements(db)?;
    db.execute_batch(WRITER_SETTINGS)
}

/// Keeps statements prepared and their query plans stable. Otherwise SQLite would plan a statement again when the value of
/// a relevant parameter changes, which costs as much as running a short statement.
fn configure_statements(db: &Connection) -> rusqlite::Result<()> {
    db.set_prepared_statement_cache_capacity(STATEMENT_CACHE_CAPACITY);
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(())
}

/// Switches the file to WAL mode. Two processes that switch a new file at once may both get `SQLITE_BUSY` without waiting
/// for the busy timeout. `BEGIN IMMEDIATE` does wait for the other's lock, and then the switch is tried again.
fn enable_wal(db: &Connection) -> rusqlite::Result<()> {
    let mut switched = Ok(());
    for _ in 0..WAL_SWITCH_ATTEMPTS {
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

/// Opens a read-only connection to a database that a writer has opened before.
pub(crate) fn open_reader(path: &Path, busy_timeout: Duration) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(busy_timeout)?;
    configure_statements(&db)?;
    db.execute_batch(READER_SETTINGS)?;
    Ok(db)
}

/// Opens a connection that runs checkpoints of a database that a writer has opened before. It waits for no other
/// connection.
pub(crate) fn open_checkpointer(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(path, flags)?;
    db.busy_timeout(Duration::ZERO)?;
    db.execute_batch(CHECKPOINTER_SETTINGS)?;
    Ok(db)
}

fn check_version(version: i32) -> Result<(), OpenError> {
    if version < SQLITE_MIN {
        Err(OpenError::SqliteTooOld { found: version, minimum: SQLITE_MIN })
    } else {
        Ok(())
    }
}

/// Checks that the path is not a directory and that its parent directory exists. SQLite reports "unable to open database
/// file" for both, which does not name the cause.
fn check_location(path: &Path) -> Result<(), OpenError> {
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

/// Creates the file readable by its owner alone, because it contains payloads and the signing secret. SQLite gives its
/// `-wal` and `-shm` files the same mode. An existing file keeps its mode. If the file cannot be created, opening it with
/// SQLite reports why.
fn create_private_file(path: &Path) {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let _ = options.open(path);
}

/// Refuses a read-only file. SQLite opens a file without write permission for reading, without an error.
fn check_writable(db: &Connection, path: &Path) -> Result<(), OpenError> {
    match db.is_readonly("main") {
        Ok(false) => Ok(()),
        Ok(true) => Err(OpenError::ReadOnly { path: path.to_owned() }),
        Err(error) => Err(OpenError::from_sqlite(error, path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_sqlite_version_with_the_wal_corruption_bug_is_refused() {
        assert!(check_version(rusqlite::version_number()).is_ok(), "the bundled SQLite is new enough");
        let error = check_version(3_051_002).unwrap_err().to_string();
        assert!(error.contains("3.51.2") && error.contains("3.51.3"), "{error}");
    }

    #[test]
    fn a_read_only_file_is_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("outbox.db");
        Connection::open(&path).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
        let db = Connection::open_with_flags(&path, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let error = check_writable(&db, &path).unwrap_err().to_string();
        assert!(error.contains("outbox.db") && error.contains("write"), "{error}");
    }

    #[test]
    fn a_writer_flushes_every_commit_and_uses_wal_mode() {
        let directory = tempfile::tempdir().unwrap();
        let db = open_writer(&directory.path().join("outbox.db"), Duration::from_secs(1)).unwrap();
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
