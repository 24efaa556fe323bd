//! The measured store, created new for every scenario.

use std::sync::Arc;
use std::time::Duration;

use crate::cpu;
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::Store;
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock, system_rng};

/// A store under measurement, with its server or directory.
pub(crate) struct Subject {
    pub(crate) store: Arc<dyn Store>,
    backend: Backend,
}

/// Where the data of the store is.
enum Backend {
    Postgres { server: Box<PostgresServer>, database: Database },
    Sqlite { _directory: tempfile::TempDir },
}

impl Subject {
    /// Creates an empty store; `kind` is `postgres` or `sqlite`.
    pub(crate) async fn create(kind: &str) -> Self {
        if kind == "postgres" { Self::postgres().await } else { Self::sqlite() }
    }

    async fn postgres() -> Self {
        let settings = [
            ("fsync", "on"),
            ("synchronous_commit", "on"),
            ("shared_buffers", "2GB"),
            ("max_wal_size", "8GB"),
            ("checkpoint_timeout", "5min"),
        ];
        let server = PostgresServer::start(&settings).unwrap_or_else(|error| panic!("{error}"));
        let database = server.create_database("bench");
        let config = PostgresConfig::from_url(&database.url).expect("the URL is the server's own");
        let store = PostgresStore::open(config).await.expect("a fresh database can be migrated");
        Self { store: Arc::new(store), backend: Backend::Postgres { server: Box::new(server), database } }
    }

    fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be created");
        let store = SqliteStore::open(
            directory.path().join("bench.db"),
            Arc::new(SystemClock),
            system_rng().expect("the operating system provides random bytes"),
            Options::default(),
        );
        let store = store.unwrap_or_else(|error| panic!("{error}"));
        Self { store: Arc::new(store), backend: Backend::Sqlite { _directory: directory } }
    }

    /// Runs SQL on the PostgreSQL server; `None` for SQLite.
    pub(crate) fn sql(&self, sql: &str) -> Option<String> {
        match &self.backend {
            Backend::Postgres { server, database } => {
                Some(server.psql(&database.name, sql).unwrap_or_else(|error| panic!("{error}")))
            }
            Backend::Sqlite { .. } => None,
        }
    }

    /// Returns the bytes of write-ahead log written so far; `None` for SQLite.
    pub(crate) fn wal_bytes(&self) -> Option<f64> {
        self.sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")?.trim().parse().ok()
    }

    /// Opens a second store on the same database, with its own connections and caches, as another process would; `None` for
    /// SQLite.
    pub(crate) async fn open_second(&self) -> Option<Arc<dyn Store>> {
        let Backend::Postgres { database, .. } = &self.backend else { return None };
        let config = PostgresConfig::from_url(&database.url).expect("the URL is the server's own");
        Some(Arc::new(PostgresStore::open(config).await.expect("the schema exists")))
    }

    /// Returns the processor time used so far by this process and by the PostgreSQL server, if there is one.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        let own = cpu::process_time(std::process::id())?;
        match &self.backend {
            Backend::Postgres { server, .. } => Some(own + cpu::children_time(server.process_id()?)?),
            Backend::Sqlite { .. } => Some(own),
        }
    }

    /// Returns the URL of the PostgreSQL database; `None` for SQLite.
    pub(crate) fn url(&self) -> Option<&str> {
        match &self.backend {
            Backend::Postgres { database, .. } => Some(&database.url),
            Backend::Sqlite { .. } => None,
        }
    }
}
