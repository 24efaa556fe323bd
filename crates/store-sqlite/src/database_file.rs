//! The database file that a store has open: its path, which file on the disk it is, and whether SQLite found it damaged.
//!
//! A file that is deleted or replaced stays writable for as long as it is open, and everything written to it is lost with
//! the last connection. The writer therefore compares the files at the paths with the open ones, the database and its
//! write-ahead log, before it runs a group of commands and again before it acknowledges them.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use posthaste_store::StoreError;
use rusqlite::ErrorCode;

use crate::error;

/// The database file of an open store. The writer and the readers share it.
#[derive(Debug)]
pub(crate) struct DatabaseFile {
    path: PathBuf,
    /// SQLite resolves symbolic links and keeps the log beside the file itself.
    wal_path: PathBuf,
    database: FileId,
    wal: FileId,
    /// Whether the last check found another file, or none, at one of the paths.
    is_lost: AtomicBool,
    /// The first error with which SQLite reported damage.
    damage: OnceLock<StoreError>,
}

/// Device and inode of a file, which no other file has while this one is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct FileId {
    device: u64,
    inode: u64,
}

impl FileId {
    #[cfg(unix)]
    fn of(path: &Path) -> std::io::Result<Self> {
        use std::os::unix::fs::MetadataExt as _;
        let file = path.metadata()?;
        Ok(Self { device: file.dev(), inode: file.ino() })
    }

    /// Elsewhere the operating system refuses to delete an open file.
    #[cfg(not(unix))]
    fn of(path: &Path) -> std::io::Result<Self> {
        path.metadata().map(|_| Self { device: 0, inode: 0 })
    }
}

impl DatabaseFile {
    /// Records which files a connection has just opened. The connection must have read the database, because SQLite
    /// creates the write-ahead log then.
    pub(crate) fn identify(path: PathBuf) -> std::io::Result<Self> {
        let wal_path = wal_path(&path)?;
        let (database, wal) = (FileId::of(&path)?, FileId::of(&wal_path)?);
        let (is_lost, damage) = (AtomicBool::new(false), OnceLock::new());
        Ok(Self { path, wal_path, database, wal, is_lost, damage })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Fails if the database or its write-ahead log was deleted or replaced. Succeeds again when the file is back.
    pub(crate) fn check_identity(&self) -> Result<(), StoreError> {
        let checked = self.compare_files();
        let is_lost = checked.is_err();
        // A load first: every commit checks, and almost none changes the flag.
        if self.is_lost.load(Ordering::Relaxed) != is_lost {
            self.is_lost.store(is_lost, Ordering::Relaxed);
            match &checked {
                Err(error) => tracing::error!(%error, "the database file is lost: nothing is acknowledged"),
                Ok(()) => tracing::info!(path = %self.path.display(), "the database file is back"),
            }
        }
        checked
    }

    fn compare_files(&self) -> Result<(), StoreError> {
        let is_open_file = |path: &Path, open: FileId| FileId::of(path).is_ok_and(|found| found == open);
        let reason = if !is_open_file(&self.path, self.database) {
            format!(
                "{} was deleted, moved or replaced while Posthaste has it open, and what is written now would be lost; \
                 move the file back, or restart Posthaste",
                self.path.display()
            )
        } else if !is_open_file(&self.wal_path, self.wal) {
            format!(
                "{} was deleted, moved or replaced while Posthaste has it open; stop Posthaste with SIGTERM, which \
                 saves its content in the database, and start it again",
                self.wal_path.display()
            )
        } else {
            return Ok(());
        };
        Err(StoreError::Unavailable { reason })
    }

    /// Fails if the file is lost, or if SQLite has found damage in it since it was opened. Damage stays until the file
    /// is opened again: other pages can still be written, so a later success does not show that it is repaired.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.check_identity()?;
        self.damage.get().map_or(Ok(()), |damage| Err(damage.clone()))
    }

    /// Translates an error of SQLite and records whether it reports damage.
    pub(crate) fn to_store_error(&self, error: &rusqlite::Error) -> StoreError {
        let translated = error::to_store_error(error, &self.path);
        let code = error.sqlite_error_code();
        if matches!(code, Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
            && self.damage.set(translated.clone()).is_ok()
        {
            tracing::error!(error = %translated, "the database is damaged: this process is not ready any more");
        }
        translated
    }

    /// Returns the size of the write-ahead log.
    pub(crate) fn wal_bytes(&self) -> Option<u64> {
        self.wal_path.metadata().ok().map(|wal| wal.len())
    }
}

/// Returns the path of a database's write-ahead log.
pub(crate) fn wal_path(path: &Path) -> std::io::Result<PathBuf> {
    let mut wal_path = path.canonicalize()?.into_os_string();
    wal_path.push("-wal");
    Ok(wal_path.into())
}
