//! Errors of a call, and their translation into [`StoreError`].
//!
//! A command that returns [`CallError::Refused`] has written nothing, and the other commands of its group are not
//! affected. After [`CallError::Sqlite`] the whole transaction is rolled back.

use std::path::Path;

use posthaste_store::StoreError;
use rusqlite::ErrorCode;

use crate::database_file::DatabaseFile;

/// Why a call failed.
#[derive(Debug)]
pub(crate) enum CallError {
    /// The request is not possible, such as cancelling a delivered event.
    Refused(StoreError),
    /// SQLite failed while the call ran.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for CallError {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl From<StoreError> for CallError {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl CallError {
    pub(crate) fn into_store_error(self, file: &DatabaseFile) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Sqlite(error) => file.to_store_error(&error),
        }
    }
}

/// Translates an error of SQLite. An error that may pass or can be repaired while the store runs becomes `Unavailable`;
/// an error that a repeated call would meet again becomes `Rejected`. Both state what to do. An open store calls
/// [`DatabaseFile::to_store_error`], which also records damage.
pub(crate) fn to_store_error(error: &rusqlite::Error, path: &Path) -> StoreError {
    let file = path.display();
    let unavailable = |reason: String| StoreError::Unavailable { reason };
    let rejected = |reason: String| StoreError::Rejected { reason };
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unavailable(format!(
            "another process has locked {file}; if this continues, find it (`fuser {file}`) and end its transaction"
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
            "{file} is damaged ({error}); stop Posthaste, run `PRAGMA integrity_check`, restore a backup"
        )),
        Some(ErrorCode::ReadOnly) => rejected(format!(
            "{file} cannot be written; give the user that runs Posthaste permission to write the file and its directory"
        )),
        _ => rejected(format!("{file}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn translate(code: i32) -> StoreError {
        let error = rusqlite::Error::SqliteFailure(ffi::Error::new(code), None);
        to_store_error(&error, Path::new("/var/lib/outbox.db"))
    }

    #[test]
    fn transient_sqlite_errors_are_unavailable_and_state_what_to_do() {
        for (code, advice) in [
            (ffi::SQLITE_BUSY, "fuser"),
            (ffi::SQLITE_LOCKED, "fuser"),
            (ffi::SQLITE_FULL, "free space"),
            (ffi::SQLITE_IOERR, "check the disk"),
            (ffi::SQLITE_CANTOPEN, "check the disk"),
        ] {
            let error = translate(code);
            assert!(error.is_transient(), "{error}");
            assert!(error.to_string().contains(advice), "{error}");
            assert!(error.to_string().contains("/var/lib/outbox.db"), "{error}");
        }
    }

    #[test]
    fn permanent_sqlite_errors_are_rejected() {
        for (code, advice) in [
            (ffi::SQLITE_CORRUPT, "backup"),
            (ffi::SQLITE_NOTADB, "backup"),
            (ffi::SQLITE_READONLY, "write the file"),
            (ffi::SQLITE_CONSTRAINT, "outbox.db"),
        ] {
            let error = translate(code);
            assert!(!error.is_transient(), "{error}");
            assert!(error.to_string().contains(advice), "{error}");
        }
    }
}
