//! Which adapters stand behind the ports. Nothing else in this crate names them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_store::{Store, StoreError, Vitals};
use posthaste_store_postgres::{CallerDefaults, InvalidUrl, MigrateError, PostgresConfig, PostgresStore};
use posthaste_store_sqlite::{OpenError as SqliteError, SqliteStore};

/// Where events are kept.
#[derive(Clone)]
pub enum Database {
    /// One file, for one host.
    Sqlite(PathBuf),
    /// A server, for many workers.
    Postgres(Box<PostgresConfig>),
}

#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    #[error(transparent)]
    Postgres(#[from] MigrateError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no database yet; start `posthaste serve`, or name the right one with --database-url")]
    None,
    #[error(
        "the schema has version {found}, and this Posthaste works with {known}; `posthaste migrate` or a newer Posthaste"
    )]
    OtherSchema { found: i64, known: i64 },
    #[error("{} cannot be created: its directory does not exist or cannot be written to; create it", .0.display())]
    NoPlace(PathBuf),
}

/// A store that has been opened, under its own type, for callers who enqueue in their own transactions.
#[derive(Clone)]
pub enum Opened {
    Sqlite(SqliteStore),
    Postgres(PostgresStore),
}

/// What a migration did, in versions of the schema; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Migrated {
    pub from: i64,
    pub to: i64,
}

impl Database {
    pub fn postgres(url: &str) -> Result<Self, InvalidUrl> {
        PostgresConfig::from_url(url).map(|config| Self::Postgres(Box::new(config)))
    }

    /// Creates the schema or brings it up to date, and opens the store.
    pub async fn open(&self, defaults: CallerDefaults) -> Result<Opened, DatabaseError> {
        match self {
            Self::Sqlite(path) => Ok(Opened::Sqlite(open_sqlite(path.clone()).await?)),
            Self::Postgres(config) => {
                let store = PostgresStore::open((**config).clone()).await?;
                store.set_caller_defaults(defaults).await?;
                Ok(Opened::Postgres(store))
            }
        }
    }

    /// Opens what is there and changes nothing about it; the schema must be the one that this program works with.
    pub async fn attach(&self) -> Result<Opened, DatabaseError> {
        match self.examine().await? {
            None => return Err(DatabaseError::None),
            Some(vitals) if !vitals.is_current() => {
                return Err(DatabaseError::OtherSchema { found: vitals.schema, known: vitals.schema_known });
            }
            Some(_) => {}
        }
        match self {
            // Nothing is left for it to migrate.
            Self::Sqlite(path) => Ok(Opened::Sqlite(open_sqlite(path.clone()).await?)),
            Self::Postgres(config) => Ok(Opened::Postgres(PostgresStore::connect((**config).clone()))),
        }
    }

    /// Looks at it and changes nothing; none where there is no database yet and the first start will create it.
    pub async fn examine(&self) -> Result<Option<Vitals>, DatabaseError> {
        match self {
            Self::Sqlite(path) if !path.exists() && !can_be_created(path) => {
                Err(DatabaseError::NoPlace(path.clone()))
            }
            Self::Sqlite(path) if !path.exists() => Ok(None),
            Self::Sqlite(path) => {
                let path = path.clone();
                let clock = posthaste_store_sqlite::SystemClock;
                Ok(Some(blocking(move || posthaste_store_sqlite::examine(path, &clock)).await?))
            }
            Self::Postgres(config) => Ok(Some(PostgresStore::connect((**config).clone()).vitals().await?)),
        }
    }

    pub async fn migrate(&self) -> Result<Migrated, DatabaseError> {
        match self {
            Self::Sqlite(path) => {
                let path = path.clone();
                let migrated = blocking(move || posthaste_store_sqlite::migrate(path)).await?;
                Ok(Migrated { from: migrated.from, to: migrated.to })
            }
            Self::Postgres(config) => {
                let migrated = posthaste_store_postgres::migrate(config).await?;
                Ok(Migrated { from: migrated.from.into(), to: migrated.to.into() })
            }
        }
    }
}

impl Opened {
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Self::Sqlite(store) => Arc::new(store.clone()),
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }
}

async fn open_sqlite(path: PathBuf) -> Result<SqliteStore, SqliteError> {
    let open = move || {
        let clock = Arc::new(posthaste_store_sqlite::SystemClock);
        SqliteStore::open(path, clock, posthaste_store_sqlite::entropy()?, Default::default())
    };
    blocking(open).await
}

/// Opening a file may wait for whoever holds it locked.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("opening a store does not panic")
}

fn can_be_created(path: &Path) -> bool {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    directory.metadata().is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
}
