//! Translates errors of PostgreSQL into errors of the store: which are transient, and what to do about them.

use std::error::Error as _;
use std::io;

use deadpool_postgres::PoolError;
use posthaste_store::StoreError;
use tokio_postgres::error::SqlState;

pub(crate) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into() }
}

/// Converts an error of the server or the connection. Leaves out the server's DETAIL, which quotes data.
pub(crate) fn store_error(error: &tokio_postgres::Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return unavailable(format!("the connection to PostgreSQL failed: {}", with_causes(error)));
    };
    let reason = describe(error);
    match classify(db.code()) {
        ErrorKind::Transient(_) => StoreError::Unavailable { reason },
        ErrorKind::Permanent(_) => StoreError::Rejected { reason },
    }
}

/// Returns the error's message, followed by what to do about it if that is known.
pub(crate) fn describe(error: &tokio_postgres::Error) -> String {
    match error.code().map(classify) {
        Some(ErrorKind::Transient(Some(advice)) | ErrorKind::Permanent(Some(advice))) => {
            format!("{}; {advice}", server_message(error))
        }
        _ => server_message(error),
    }
}

/// Returns the server's message and SQLSTATE, or the causes of an error that is not the server's.
pub(crate) fn server_message(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => with_causes(error),
    }
}

/// Whether a call may succeed when it is repeated, with advice for the operator.
enum ErrorKind {
    Transient(Option<&'static str>),
    Permanent(Option<&'static str>),
}

fn classify(state: &SqlState) -> ErrorKind {
    use ErrorKind::{Permanent, Transient};
    match state.code() {
        "25006" => Transient(Some("this server accepts no writes; connecting again to find one that does")),
        "53100" => Transient(Some("the server's disk is full: free some space")),
        "53300" => Transient(Some("raise max_connections, or run fewer processes")),
        "57014" | "55P03" => {
            Transient(Some("the server was too slow, or another transaction held a lock for too long"))
        }
        "28P01" | "28000" | "3D000" => Transient(Some("check user, password and database of the URL")),
        "42P01" | "42883" | "42703" | "3F000" => {
            Permanent(Some("the schema is missing or old: run the migrations"))
        }
        "42501" => Permanent(Some("grant this role the missing privilege")),
        "26000" | "42P05" => Transient(Some(
            "a transaction pooler shares server sessions; continuing without prepared statements",
        )),
        "54000" => Transient(Some(
            "the server has reached a limit, perhaps of transaction ids: see its log, and vacuum the database",
        )),
        "XX001" | "XX002" => Transient(Some(
            "the server's data or an index is damaged: see its log, then repair or restore it",
        )),
        // A prepared statement whose table was altered. The next connection prepares it again.
        "0A000" => Transient(None),
        code if TRANSIENT_CLASSES.iter().any(|class| code.starts_with(class)) => Transient(None),
        _ => Permanent(None),
    }
}

/// Classes of errors in which the server, not the call, is at fault. A call succeeds once an operator has repaired the
/// server, so callers keep what they could not write, and repeat it.
const TRANSIENT_CLASSES: [&str; 11] = [
    "08", // connection
    "25", // state of the transaction, such as a timeout of idle transactions
    "28", // authorization of the connection
    "40", // rollback
    "53", // resources
    "55", // state of an object, such as a lock that is not available
    "57", // intervention of an operator
    "58", // operating system
    "72", // a snapshot that is too old
    "F0", // configuration file
    "XX", // internal error
];

/// Returns whether a failed start may succeed later without an operator: the server was not reachable, or is starting,
/// stopping or overloaded.
pub(crate) fn passes_by_itself(error: &tokio_postgres::Error) -> bool {
    match error.code() {
        Some(state) => ["08", "40", "53", "55", "57"].iter().any(|class| state.code().starts_with(class)),
        None => find_io_error(error).is_some_and(|error| error.kind() != io::ErrorKind::InvalidData),
    }
}

/// Returns the I/O error that caused this one. A failed TLS handshake is one of kind `InvalidData`.
fn find_io_error(error: &tokio_postgres::Error) -> Option<&io::Error> {
    let mut source = error.source();
    while let Some(cause) = source {
        if let Some(error) = cause.downcast_ref() {
            return Some(error);
        }
        source = cause.source();
    }
    None
}

/// Returns whether a lock wait timed out or ended in a deadlock. The transaction then changed nothing.
pub(crate) fn is_lock_conflict(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

/// Returns whether the error means that a prepared statement is missing or already exists: a transaction pooler has
/// switched server sessions.
pub(crate) fn is_statement_missing(state: &SqlState) -> bool {
    matches!(state.code(), "26000" | "42P05")
}

/// Returns whether a server or pooler may have refused a connection because of the options of its startup packet. Refused
/// credentials, an unknown database and a server without capacity have other reasons.
pub(crate) fn may_refuse_startup_options(error: &tokio_postgres::Error) -> bool {
    let of_another_kind = ["25", "28", "3D", "53", "57"];
    error.code().is_some_and(|state| !of_another_kind.iter().any(|class| state.code().starts_with(class)))
}

/// Converts a failure to get a session from the pool, which is always transient.
pub(crate) fn pool_error(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => match store_error(error) {
            StoreError::Rejected { reason } => unavailable(reason),
            other => other,
        },
        PoolError::Timeout(kind) => unavailable(format!("no connection to PostgreSQL in time ({kind:?})")),
        other => unavailable(format!("no connection to PostgreSQL: {other}")),
    }
}

/// Returns the message of an error followed by those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_transient(code: &str) -> bool {
        matches!(classify(&SqlState::from_code(code)), ErrorKind::Transient(_))
    }

    #[test]
    fn errors_of_the_server_are_transient() {
        let of_the_server = [
            "08006", "0A000", "25006", "25P02", "25P03", "25P04", "28P01", "3D000", "40001", "40P01",
            "53100", "53200", "53300", "54000", "55006", "55P03", "57014", "57P01", "57P03", "57P05",
            "58030", "58P01", "72000", "F0000", "XX000", "XX001", "XX002",
        ];
        for code in of_the_server {
            assert!(is_transient(code), "{code}");
        }
    }

    #[test]
    fn errors_of_a_call_are_permanent() {
        for code in [
            "22001", "22003", "22P02", "23502", "23505", "23514", "42601", "42P01", "42501", "54011", "P0001",
        ] {
            assert!(!is_transient(code), "{code}");
        }
    }
}
