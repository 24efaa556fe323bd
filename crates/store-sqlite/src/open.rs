//! Opening a database, and why it could not be.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::{StdRng, SysRng};
use rusqlite::ErrorCode;

/// How a store is to behave; the defaults are for a worker on a local disk.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How long to wait for another process that is writing.
    pub busy_timeout: Duration,
    /// No call takes longer than this: it is then answered as unavailable, even if the disk never answers.
    pub answer_within: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self { busy_timeout: Duration::from_secs(5), answer_within: Duration::from_secs(20) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(
        "SQLite {} is built in, and only {} and later are safe to write with; build Posthaste with a newer rusqlite",
        dotted(*found),
        dotted(*least)
    )]
    SqliteTooOld { found: i32, least: i32 },
    #[error("{} is a directory; name a file in it", path.display())]
    IsADirectory { path: PathBuf },
    #[error("{} cannot be created: there is no directory {}; create it", path.display(), directory.display())]
    NoDirectory { path: PathBuf, directory: PathBuf },
    #[error(
        "{} may only be read; let the user that runs Posthaste write the file and its directory",
        path.display()
    )]
    ReadOnly { path: PathBuf },
    #[error("{} is not an SQLite database; move it away or name another file", path.display())]
    NotADatabase { path: PathBuf },
    #[error("{} is damaged ({source}); look with `PRAGMA integrity_check`, restore a backup", path.display())]
    Damaged { path: PathBuf, source: rusqlite::Error },
    #[error("the disk is full: free space on the file system of {}", path.display())]
    Full { path: PathBuf },
    #[error("{} is held locked by another process; end its transaction and start again", path.display())]
    Locked { path: PathBuf },
    #[error(
        "{} has schema version {found}, and this Posthaste knows versions up to {known}; upgrade Posthaste",
        path.display()
    )]
    SchemaTooNew { path: PathBuf, found: i64, known: i64 },
    #[error("migration {version} of {} failed and was rolled back: {source}", path.display())]
    Migration { path: PathBuf, version: i64, source: rusqlite::Error },
    #[error("{} cannot be opened: {source}; check the path and its permissions", path.display())]
    Sqlite { path: PathBuf, source: rusqlite::Error },
    #[error("the operating system gives no randomness: {0}")]
    NoEntropy(String),
    #[error("{} is no path to a file: {source}; name a database file", path.display())]
    NoPath { path: PathBuf, source: std::io::Error },
    #[error("the thread that writes could not be started: {0}")]
    Thread(std::io::Error),
}

impl OpenError {
    pub(crate) fn of(error: rusqlite::Error, path: &Path) -> Self {
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

/// 3051003 is 3.51.3.
fn dotted(version: i32) -> String {
    format!("{}.{}.{}", version / 1_000_000, version / 1_000 % 1_000, version % 1_000)
}

/// A generator that nobody can foretell, for a store in production.
pub fn entropy() -> Result<StdRng, OpenError> {
    StdRng::try_from_rng(&mut SysRng).map_err(|error| OpenError::NoEntropy(error.to_string()))
}

/// The path as SQLite takes it: absolute, so that no name means "in memory" or "temporary".
pub(crate) fn absolute(path: &Path) -> Result<PathBuf, OpenError> {
    std::path::absolute(path).map_err(|source| OpenError::NoPath { path: path.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    #[test]
    fn each_way_of_failing_has_its_own_way_out() {
        for (code, advice) in [
            (ffi::SQLITE_NOTADB, "move it away"),
            (ffi::SQLITE_READONLY, "write the file"),
            (ffi::SQLITE_BUSY, "end its transaction"),
            (ffi::SQLITE_CORRUPT, "restore a backup"),
            (ffi::SQLITE_FULL, "free space"),
            (ffi::SQLITE_CANTOPEN, "permissions"),
        ] {
            let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
            let told = OpenError::of(error, Path::new("/var/lib/outbox.db")).to_string();
            assert!(told.contains(advice) && told.contains("/var/lib/outbox.db"), "{told}");
        }
    }
}
