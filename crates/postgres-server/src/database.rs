//! Databases of a server, and SQL through `psql` for tests without a client.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::{CommandError, remove_pg_variables, run_with_input};
use crate::server::PostgresServer;

/// Longer hints are truncated, because names in PostgreSQL have at most 63 bytes.
const HINT_CHARS_MAX: usize = 40;

/// A database of one test. It exists until its server is removed or [`PostgresServer::drop_database`] is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    pub name: String,
    pub url: String,
}

impl PostgresServer {
    /// Returns the URL of a database of this server.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port())
    }

    /// Creates an empty database with a unique name that contains `name_hint`.
    ///
    /// # Panics
    /// If the database cannot be created.
    pub fn create_database(&self, name_hint: &str) -> Database {
        self.create_database_named(name_hint, "template0")
    }

    /// Creates a database as a copy of another, to which no client may be connected.
    ///
    /// # Panics
    /// If the database cannot be created.
    pub fn create_database_from(&self, template: &str) -> Database {
        self.create_database_named(template, template)
    }

    fn create_database_named(&self, name_hint: &str, template: &str) -> Database {
        static CREATED: AtomicU64 = AtomicU64::new(0);
        let name = format!("{}_{}", plain_name(name_hint), CREATED.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE \"{name}\" TEMPLATE \"{template}\";"))
            .unwrap_or_else(|error| panic!("database {name} could not be created from {template}: {error}"));
        Database { url: self.url(&name), name }
    }

    /// Drops a database and disconnects its clients.
    pub fn drop_database(&self, name: &str) -> Result<(), CommandError> {
        self.psql("postgres", &format!("DROP DATABASE \"{name}\" WITH (FORCE);")).map(drop)
    }

    /// Runs statements one after the other, each in a transaction of its own, until one fails. Returns their rows, one
    /// per line, with columns separated by `|`.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, CommandError> {
        let mut psql = Command::new(self.runner.install().program("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d"]);
        psql.arg(self.url(database));
        remove_pg_variables(&mut psql);
        run_with_input("psql", &mut psql, sql)
    }
}

/// Replaces every character of a hint that a name would have to quote.
fn plain_name(hint: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' };
    hint.chars().take(HINT_CHARS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_hint_becomes_a_plain_name_of_limited_length() {
        assert_eq!(plain_name("Store::claim \"é\""), "store__claim____");
        assert_eq!(plain_name(&"x".repeat(100)).len(), HINT_CHARS_MAX);
    }
}
