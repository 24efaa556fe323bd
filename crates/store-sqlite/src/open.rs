//! Options and errors of opening a database file.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::{StdRng, SysRng};
use rusqlite::ErrorCode;

/// Options of a store; the defaults suit a worker on a local disk.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long SQLite waits for another process that is writing.
    pub busy_timeout: Duration,
    /// How long a call may take. After that it fails as unavailable, even if the disk never responds.
    pub call_timeout: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(5), call_timeout: Duration::from_secs(20) }
    }
}

/// Why a database file could not be opened or migrated.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "the bundled SQLite {} can corrupt the file; build Posthaste with a rusqlite that bundles SQLite {} or later",
        format_version(*found),
        format_version(*minimum)
    )]
    SqliteTooOld { found: i32, minimum: i32 },
    #[error("{} is a directory; name a file in it", path.display())]
    IsADirectory { path: PathBuf },
    #[error("{} cannot be created because the directory {} does not exist; create it", path.display(), directory.display())]
    NoDirectory { path: PathBuf, directory: PathBuf },
    #[error(
        "{} is read-only; give the user that runs Posthaste permission to write the file and its directory",
        path.display()
    )]
    ReadOnly { path: PathBuf },
    #[error("{} is not an SQLite database; move it away or name another file", path.display())]
    NotADatabase { path: PathBuf },
    #[error("{} is damaged ({source}); run `PRAGMA integrity_check`, restore a backup", path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    #[error("the disk is full: free space on the file system of {}", path.display())]
    Full { path: PathBuf },
    #[error("another process has locked {}; end its transaction and start Posthaste again", path.display())]
    Locked { path: PathBuf },
    #[error(
        "{} has schema version {found}, but this Posthaste supports versions up to {supported}; upgrade Posthaste",
        path.display()
    )]
    SchemaTooNew { path: PathBuf, found: i64, supported: i64 },
    #[error("migration {version} of {} failed and was rolled back: {source}", path.display())]
    Migration { path: PathBuf, version: i64, source: rusqlite::Error },
    #[error("{} cannot be opened: {source}; check the path and its permissions", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("the operating system returned no random bytes: {0}")]
    NoEntropy(String),
    #[error("{} is not a path to a file: {source}; name a database file", path.display())]
    NoPath { path: PathBuf, source: std::io::Error },
    #[error("{} disappeared while it was opened: {source}; start Posthaste again", path.display())]
    Lost { path: PathBuf, source: std::io::Error },
    #[error("cannot start the writer thread: {0}")]
    Thread(std::io::Error),
}

impl OpenError {
    pub(crate) fn from_sqlite(error: rusqlite::Error, path: &Path) -> Self {
        let path = path.to_owned();
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => Self::NotADatabase { path },
            Some(ErrorCode::ReadOnly) => Self::ReadOnly { path },
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Self::Locked { path },
            Some(ErrorCode::DatabaseCorrupt) => Self::Damaged { path, source: error },
            Some(ErrorCode::DiskFull) => Self::Full { path },
            _ => Self::Sqlite { path, source: error },
        }
    }
}

/// Formats a version number of SQLite: 3051003 is 3.51.3.
fn format_version(version: i32) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}

/// Returns a random generator seeded by the operating system, for a store in production.
pub fn system_rng() -> Result<StdRng, OpenError> {
    StdRng::try_from_rng(&mut SysRng).map_err(|error| OpenError::NoEntropy(error.to_string()))
}

/// Makes a path absolute, so that SQLite does not mistake a file name for the special name of an in-memory or temporary
/// database.
pub(crate) fn absolute_path(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|source| OpenError::NoPath { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn each_error_of_sqlite_names_the_file_and_what_to_do() {
        for (code, advice) in [
            (ffi::SQLITE_NOTADB, "move it away"),
            (ffi::SQLITE_READONLY, "write the file"),
            (ffi::SQLITE_BUSY, "end its transaction"),
            (ffi::SQLITE_CORRUPT, "restore a backup"),
            (ffi::SQLITE_FULL, "free space"),
            (ffi::SQLITE_CANTOPEN, "permissions"),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let message = OpenError::from_sqlite(error, Path::new("/var/lib/outbox.db")).to_string();
            assert!(message.contains(advice) && message.contains("/var/lib/outbox.db"), "{message}");
        }
    }
}
