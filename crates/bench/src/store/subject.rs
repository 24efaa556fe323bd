//! The measured store, created new for every scenario.

use std::sync::Arc;
use std::time::Duration;

use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::Store;
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock, system_rng};

use crate::database::POSTGRES_SETTINGS;
use crate::options::StoreKind;
use crate::process;

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
    /// Creates an empty store.
    pub(crate) async fn create(kind: StoreKind) -> Self {
        match kind {
            StoreKind::Postgres => Self::postgres().await,
            StoreKind::Sqlite => Self::sqlite(),
        }
    }

    async fn postgres() -> Self {
        let server = PostgresServer::start(POSTGRES_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
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

    /// Returns the processor time used so far by this process and by the PostgreSQL server, if there is one.
    pub(crate) fn cpu_time(&self) -> Option<Duration> {
        let own = process::process_time(std::process::id())?;
        match &self.backend {
            Backend::Postgres { server, .. } => Some(own + process::family_time(server.process_id()?)?),
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
