//! Why a call came to nothing: the caller's own doing, or SQLite's.
//!
//! A command that returns [`Fault::Refused`] has written nothing; its neighbours in the group are not touched. After
//! [`Fault::Sqlite`] the whole transaction is rolled back.

use std::path::Path;

use posthaste_store::StoreError;
use rusqlite::ErrorCode;

#[derive(Debug)]
pub(crate) enum Fault {
    Refused(StoreError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Fault {
    pub(crate) fn into_store_error(self, path: &Path) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => store_error(&error, path),
        }
    }
}

/// What passes by itself or can be mended while the store runs is `Unavailable`; what asking again cannot mend is
/// `Rejected`. Either way the reason says what to do.
pub(crate) fn store_error(error: &rusqlite::Error, path: &Path) -> StoreError {
    let file = path.display();
    let unavailable = |reason: String| StoreError::Unavailable { reason };
    let rejected = |reason: String| StoreError::Rejected { reason };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unavailable(format!(
            "another process holds {file} locked; if this goes on, find it (`fuser {file}`) and end its transaction"
        )),
        Some(ErrorCode::DiskFull) => {
            unavailable(format!("the disk is full: free space on the file system of {file}"))
        }
        Some(
            ErrorCode::SystemIoFailure
            | ErrorCode::CannotOpen
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::OutOfMemory
            | ErrorCode::OperationInterrupted
            | ErrorCode::SchemaChanged,
        ) => unavailable(format!(
            "{file} cannot be read or written ({error}); check the disk and the system's log"
        )),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => rejected(format!(
            "{file} is damaged ({error}); stop Posthaste, look with `PRAGMA integrity_check`, restore a backup"
        )),
        Some(ErrorCode::ReadOnly) => rejected(format!(
            "{file} cannot be written; let the user that runs Posthaste write the file and its directory"
        )),
        _ => rejected(format!("{file}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn told(code: i32) -> StoreError {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        store_error(&error, Path::new("/var/lib/outbox.db"))
    }

    #[test]
    fn what_passes_by_itself_is_unavailable_and_says_what_to_do() {
        for (code, advice) in [
            (ffi::SQLITE_BUSY, "fuser"),
            (ffi::SQLITE_LOCKED, "fuser"),
            (ffi::SQLITE_FULL, "free space"),
            (ffi::SQLITE_IOERR, "check the disk"),
            (ffi::SQLITE_CANTOPEN, "check the disk"),
        ] {
            let error = told(code);
            assert!(error.is_transient(), "{error}");
            assert!(error.to_string().contains(advice), "{error}");
            assert!(error.to_string().contains("/var/lib/outbox.db"), "{error}");
        }
    }

    #[test]
    fn what_asking_again_cannot_mend_is_rejected() {
        for (code, advice) in [
            (ffi::SQLITE_CORRUPT, "backup"),
            (ffi::SQLITE_NOTADB, "backup"),
            (ffi::SQLITE_READONLY, "write the file"),
            (ffi::SQLITE_CONSTRAINT, "outbox.db"),
        ] {
            let error = told(code);
            assert!(!error.is_transient(), "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
