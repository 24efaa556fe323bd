//! The databases of the product, created new for every part.

use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use posthaste_postgres_server::PostgresServer;
use posthaste_store::Store;
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock, system_rng};

use crate::options::StoreKind;
use crate::process;

/// Settings of the PostgreSQL server: durable commits, and enough memory and log that checkpoints are rare.
pub(crate) const POSTGRES_SETTINGS: &[(&str, &str)] = &[
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("shared_buffers", "2GB"),
    ("max_wal_size", "8GB"),
    ("checkpoint_timeout", "5min"),
];

/// Additional settings of the server whose statements are measured. Counting them costs a few percent.
pub(crate) const STATEMENT_SETTINGS: &[(&str, &str)] =
    &[("shared_preload_libraries", "pg_stat_statements"), ("pg_stat_statements.track_utility", "on")];

/// Name of the file of a SQLite database.
const SQLITE_FILE: &str = "posthaste.db";

/// An empty database. It is removed when this value is dropped.
pub(crate) struct Database {
    /// Also the working directory of the product, so that it reads no configuration file.
    directory: tempfile::TempDir,
    url: String,
    postgres: Option<(Rc<PostgresServer>, String)>,
}

/// The PostgreSQL server of a run. The first part that needs it starts it.
#[derive(Default)]
pub(crate) struct Servers(Option<Rc<PostgresServer>>);

impl Servers {
    fn postgres(&mut self) -> Rc<PostgresServer> {
        let start = || {
            let server = PostgresServer::start(POSTGRES_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
            Rc::new(server)
        };
        Rc::clone(self.0.get_or_insert_with(start))
    }

    /// Starts a server that measures its statements, and creates an empty database on it.
    pub(crate) fn create_with_statements() -> Database {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let settings = [POSTGRES_SETTINGS, STATEMENT_SETTINGS].concat();
        let server = PostgresServer::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        let created = server.create_database("stages");
        let database =
            Database { directory, url: created.url, postgres: Some((Rc::new(server), created.name)) };
        database.sql("CREATE EXTENSION pg_stat_statements;");
        database
    }

    /// Returns the version of the server, if one runs.
    pub(crate) fn postgres_version(&self) -> Option<String> {
        self.0.as_ref().map(|server| server.version().to_owned())
    }

    /// Creates an empty database.
    pub(crate) fn create(&mut self, kind: StoreKind) -> Database {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        match kind {
            StoreKind::Sqlite => {
                let url = format!("sqlite://{}", directory.path().join(SQLITE_FILE).display());
                Database { directory, url, postgres: None }
            }
            StoreKind::Postgres => {
                let server = self.postgres();
                let created = server.create_database("bench");
                Database { directory, url: created.url, postgres: Some((server, created.name)) }
            }
        }
    }
}

impl Database {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Opens the store in this process, runs `work` with it, and closes it.
    pub(crate) async fn with_store(&self, work: impl AsyncFnOnce(&Arc<dyn Store>)) {
        if self.postgres.is_some() {
            let config = PostgresConfig::from_url(&self.url).expect("the URL is the server's own");
            let store = PostgresStore::open(config).await.expect("the database can be migrated");
            return work(&(Arc::new(store) as Arc<dyn Store>)).await;
        }
        let random = system_rng().expect("the operating system provides random bytes");
        let path = self.directory.path().join(SQLITE_FILE);
        let store = SqliteStore::open(path, Arc::new(SystemClock), random, Options::default());
        let store = store.unwrap_or_else(|error| panic!("{error}"));
        work(&(Arc::new(store.clone()) as Arc<dyn Store>)).await;
        let closed = tokio::task::spawn_blocking(move || store.close()).await;
        assert!(closed.expect("closing does not panic"), "the file can be closed");
    }

    /// Returns the port of the PostgreSQL server; `None` for SQLite.
    pub(crate) fn postgres_port(&self) -> Option<u16> {
        self.postgres.as_ref().map(|(server, _)| server.port())
    }

    /// Returns the processor time of the PostgreSQL server; `None` for SQLite.
    pub(crate) fn server_time(&self) -> Option<Duration> {
        process::family_time(self.postgres.as_ref()?.0.process_id()?)
    }

    /// Runs SQL on the PostgreSQL server; `None` for SQLite.
    pub(crate) fn sql(&self, sql: &str) -> Option<String> {
        let (server, name) = self.postgres.as_ref()?;
        Some(server.psql(name, sql).unwrap_or_else(|error| panic!("{error}")))
    }

    /// Returns the bytes of write-ahead log written so far; `None` for SQLite.
    pub(crate) fn wal_bytes(&self) -> Option<f64> {
        self.sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")?.trim().parse().ok()
    }

    /// Finishes the background work of earlier writes, so that it does not affect the next measurement.
    pub(crate) fn tidy(&self) {
        self.sql("VACUUM ANALYZE;");
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        if let Some((server, name)) = &self.postgres {
            // The server is removed at the end anyway; dropping early frees the disk.
            let _ = server.drop_database(name);
        }
    }
}
