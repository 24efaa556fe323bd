//! The store that is measured, fresh for every scenario.

use std::sync::Arc;
use std::time::Duration;

use crate::cpu;
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::Store;
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock, entropy};

pub(crate) struct Subject {
    pub(crate) store: Arc<dyn Store>,
    place: Place,
}

enum Place {
    Postgres { server: Box<PostgresServer>, database: Database },
    Sqlite { _directory: tempfile::TempDir },
}

impl Subject {
    pub(crate) async fn fresh(kind: &str) -> Self {
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
        Self { store: Arc::new(store), place: Place::Postgres { server: Box::new(server), database } }
    }

    fn sqlite() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory can be made");
        let store = SqliteStore::open(
            directory.path().join("bench.db"),
            Arc::new(SystemClock),
            entropy().expect("the system has randomness"),
            Options::default(),
        );
        let store = store.unwrap_or_else(|error| panic!("{error}"));
        Self { store: Arc::new(store), place: Place::Sqlite { _directory: directory } }
    }

    /// Runs SQL on the server; nothing where there is none.
    pub(crate) fn sql(&self, sql: &str) -> Option<String> {
        match &self.place {
            Place::Postgres { server, database } => {
                Some(server.psql(&database.name, sql).unwrap_or_else(|error| panic!("{error}")))
            }
            Place::Sqlite { .. } => None,
        }
    }

    /// Bytes of write-ahead log written so far.
    pub(crate) fn wal_bytes(&self) -> Option<f64> {
        self.sql("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')")?.trim().parse().ok()
    }

    /// A second store on the same data, with connections and knowledge of its own, as another process would have.
    pub(crate) async fn second(&self) -> Option<Arc<dyn Store>> {
        let Place::Postgres { database, .. } = &self.place else { return None };
        let config = PostgresConfig::from_url(&database.url).expect("the URL is the server's own");
        Some(Arc::new(PostgresStore::open(config).await.expect("the schema is there")))
    }

    /// Processor time spent so far by this process and, where there is one, by the server.
    pub(crate) fn cpu(&self) -> Option<Duration> {
        let own = cpu::of_process(std::process::id())?;
        match &self.place {
            Place::Postgres { server, .. } => Some(own + cpu::of_children(server.process_id()?)?),
            Place::Sqlite { .. } => Some(own),
        }
    }

    pub(crate) fn url(&self) -> Option<&str> {
        match &self.place {
            Place::Postgres { database, .. } => Some(&database.url),
            Place::Sqlite { .. } => None,
        }
    }
}
