//! What a failure of the server means to whoever asked.

use deadpool_postgres::PoolError;
use posthaste_store::StoreError;
use tokio_postgres::error::SqlState;

pub(crate) fn unavailable(reason: impl Into<String>) -> StoreError {
    StoreError::Unavailable { reason: reason.into() }
}

/// What the server said, in its own words but without its details, which quote the data.
pub(crate) fn refusal(error: &tokio_postgres::Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return unavailable(format!("the connection to PostgreSQL failed: {}", chain(error)));
    };
    let reason = told(error);
    match kind(db.code()) {
        Kind::Passes(_) => StoreError::Unavailable { reason },
        Kind::Stays(_) => StoreError::Rejected { reason },
    }
}

/// What went wrong, once and in full, and what to do about it where that is known.
pub(crate) fn told(error: &tokio_postgres::Error) -> String {
    match error.code().map(kind) {
        Some(Kind::Passes(Some(advice)) | Kind::Stays(Some(advice))) => format!("{}; {advice}", words(error)),
        _ => words(error),
    }
}

pub(crate) fn words(error: &tokio_postgres::Error) -> String {
    match error.as_db_error() {
        Some(db) => format!("{} (SQLSTATE {})", db.message(), db.code().code()),
        None => chain(error),
    }
}

enum Kind {
    /// Asking again may help, with or without somebody's doing.
    Passes(Option<&'static str>),
    Stays(Option<&'static str>),
}

fn kind(state: &SqlState) -> Kind {
    match state.code() {
        "25006" => Kind::Passes(Some("this server accepts no writes; looking for one that does")),
        "53100" => Kind::Passes(Some("the server's disk is full: free space on it")),
        "53300" => Kind::Passes(Some("raise max_connections, or run fewer processes")),
        "57014" | "55P03" => {
            Kind::Passes(Some("the server was too slow, or something holds a lock for long"))
        }
        "28P01" | "28000" | "3D000" => Kind::Passes(Some("check user, password and database of the URL")),
        "42P01" | "42883" | "42703" | "3F000" => {
            Kind::Stays(Some("the schema is missing or old: run the migrations"))
        }
        "42501" => Kind::Stays(Some("grant this role what it lacks")),
        // Connections, rollbacks, resources, operators, and what only happens behind a pooler.
        code if ["08", "40", "53", "57", "58"].iter().any(|class| code.starts_with(class)) => {
            Kind::Passes(None)
        }
        "26000" | "42P05" => {
            Kind::Passes(Some("a pooler hands out sessions; going on without prepared statements"))
        }
        _ => Kind::Stays(None),
    }
}

/// A wait for somebody else was given up, or was one of several in a circle. Nothing was done.
pub(crate) fn gave_way(error: &tokio_postgres::Error) -> bool {
    error
        .code()
        .is_some_and(|code| [SqlState::LOCK_NOT_AVAILABLE, SqlState::T_R_DEADLOCK_DETECTED].contains(code))
}

/// A prepared statement that is not there, or is there already: somebody else used the session in between.
pub(crate) fn is_pooled(state: &SqlState) -> bool {
    matches!(state.code(), "26000" | "42P05")
}

pub(crate) fn no_session(error: &PoolError) -> StoreError {
    match error {
        PoolError::Backend(error) => match refusal(error) {
            StoreError::Rejected { reason } => unavailable(reason),
            other => other,
        },
        PoolError::Timeout(kind) => unavailable(format!("no connection to PostgreSQL in time ({kind:?})")),
        other => unavailable(format!("no connection to PostgreSQL: {other}")),
    }
}

fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
