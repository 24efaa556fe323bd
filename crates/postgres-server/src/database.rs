//! Databases of a server, and SQL for tests that have no client of their own.

use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::command::{CommandError, run_with_input, without_pg_variables};
use crate::server::PostgresServer;

/// Long hints are cut: PostgreSQL's names have at most 63 bytes.
const HINT_CHARS_MAX: usize = 40;

/// A database that nobody else uses. It goes with its server, or by [`PostgresServer::drop_database`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Database {
    pub name: String,
    pub url: String,
}

impl PostgresServer {
    /// Where a client finds a database of this server.
    pub fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port())
    }

    /// A new, empty database with a name of its own.
    ///
    /// # Panics
    /// A test without its database has nothing to test.
    pub fn create_database(&self, name_hint: &str) -> Database {
        self.create_database_named(name_hint, "template0")
    }

    /// A new database that is a copy of another, to which nobody may be connected.
    ///
    /// # Panics
    /// As [`Self::create_database`].
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

    /// Removes a database, cutting off whoever is connected to it.
    pub fn drop_database(&self, name: &str) -> Result<(), CommandError> {
        self.psql("postgres", &format!("DROP DATABASE \"{name}\" WITH (FORCE);")).map(drop)
    }

    /// Runs statements one after the other, each in a transaction of its own, and returns their rows: one per line,
    /// columns separated by `|`. The first that fails ends it.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, CommandError> {
        let mut psql = Command::new(self.account.install().program("psql"));
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-f", "-", "-d"]);
        psql.arg(self.url(database));
        without_pg_variables(&mut psql);
        run_with_input("psql", &mut psql, sql)
    }
}

fn plain_name(hint: &str) -> String {
    let plain = |char: char| if char.is_ascii_alphanumeric() { char.to_ascii_lowercase() } else { '_' };
    hint.chars().take(HINT_CHARS_MAX).map(plain).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_hint_makes_a_plain_name() {
        assert_eq!(plain_name("Store::claim \"é\""), "store__claim____");
        assert_eq!(plain_name(&"x".repeat(100)).len(), HINT_CHARS_MAX);
    }
}
