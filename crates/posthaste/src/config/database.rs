//! Which store, and where it is.

use std::path::PathBuf;

use super::redacted::Redacted;
use super::values::path;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Database {
    /// A file, relative to the working directory where it is not absolute.
    Sqlite(PathBuf),
    /// The whole URL, for the driver to read: it may name several hosts.
    Postgres(Redacted),
}

impl Database {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        if text.starts_with("sqlite:") {
            return sqlite(text).map(Self::Sqlite);
        }
        let Some(rest) = text.strip_prefix("postgres://").or_else(|| text.strip_prefix("postgresql://"))
        else {
            return Err("events are kept in SQLite or PostgreSQL, and this names neither".to_owned());
        };
        if rest.is_empty() {
            return Err("it names no host and no database".to_owned());
        }
        if rest.chars().any(|char| char.is_whitespace() || char.is_control()) {
            return Err("it holds a space or a control character; write them percent-encoded".to_owned());
        }
        Ok(Self::Postgres(Redacted::new(text)))
    }
}

/// What follows `sqlite://` is the path as it is: nothing is decoded, and there are no parameters.
fn sqlite(text: &str) -> Result<PathBuf, String> {
    if text.contains(":memory:") || text.contains("mode=memory") {
        return Err(
            "a database in memory loses every event that it has accepted when the process ends; name a file"
                .to_owned(),
        );
    }
    let Some(file) = text.strip_prefix("sqlite://") else {
        return Err("two slashes are missing after sqlite:".to_owned());
    };
    if file.contains(['?', '#']) {
        return Err("parameters are not taken; remove everything from the ? or # on".to_owned());
    }
    if file.is_empty() || file.ends_with('/') {
        return Err("it names no file".to_owned());
    }
    path(file)
}
