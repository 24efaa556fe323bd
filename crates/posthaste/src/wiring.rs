//! Selects the adapters: which store, sender and resolver an instance uses. This is the only file that names their
//! types.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use posthaste_engine::{Sender, SharedProfiles, SharedSigningKeys};
use posthaste_sender::{HttpSender, InvalidOptions, Resolver, SenderOptions, SystemResolver};
use posthaste_store::{Store, StoreError, StoreHealth};
#[cfg(feature = "postgres")]
use posthaste_store_postgres::{EnqueueFunctionDefaults, MigrateError, PostgresConfig, PostgresStore};
#[cfg(feature = "sqlite")]
use posthaste_store_sqlite::{OpenError as SqliteError, SqliteStore};

use crate::instance::Posthaste;

/// The PostgreSQL driver, in the version whose transactions `enqueue_in` accepts.
#[cfg(feature = "postgres")]
pub use posthaste_store_postgres::tokio_postgres;
/// The URL of a PostgreSQL database and the name of its schema, and why one is rejected.
#[cfg(feature = "postgres")]
pub use posthaste_store_postgres::{InvalidSchemaName, InvalidUrl, PostgresUrl, SchemaName};
/// The SQLite driver, in the version whose transactions `enqueue_in` accepts.
#[cfg(feature = "sqlite")]
pub use posthaste_store_sqlite::rusqlite;

/// The database that holds the events.
#[derive(Clone)]
#[non_exhaustive]
pub enum Database {
    /// A SQLite file, for the processes of one host.
    #[cfg(feature = "sqlite")]
    Sqlite(PathBuf),
    /// A PostgreSQL server, for workers on many hosts.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresConfig>),
}

/// Why a database cannot be opened, inspected or migrated.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DatabaseError {
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    #[cfg(feature = "postgres")]
    #[error("the schema cannot be named {name:?}: {reason}")]
    SchemaName { name: String, reason: InvalidSchemaName },
    #[cfg(feature = "sqlite")]
    #[error("SQLite has no schemas; only a PostgreSQL database has one")]
    NoSchemas,
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] MigrateError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no database yet; start `posthaste serve`, or name the right one with --database-url")]
    Missing,
    #[error(
        "the schema has version {found}, and this Posthaste works with {supported}; {}",
        if found > supported { "a newer one has been here: upgrade this one" } else { "run `posthaste migrate`" }
    )]
    SchemaMismatch { found: i64, supported: i64 },
    #[error("{} cannot be created: its directory does not exist or cannot be written to; create it", .0.display())]
    DirectoryNotWritable(PathBuf),
}

impl DatabaseError {
    /// Returns true if the same call may succeed later, because the database was not reachable.
    pub fn is_transient(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(error) => error.is_transient(),
            Self::Store(error) => error.is_transient(),
            _ => false,
        }
    }
}

/// An open store with its concrete type.
#[derive(Clone)]
#[non_exhaustive]
pub enum OpenStore {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

/// The schema versions before and after a migration. Version 0 is a database without a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MigrationReport {
    pub from: i64,
    pub to: i64,
    /// What is missing from the schema, or differs from what it should be, although its version is current.
    pub problems: Vec<String>,
}

/// What a check of a database's content found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DatabaseCheck {
    /// What is missing from the schema, or differs from what it should be.
    pub schema_problems: Vec<String>,
    /// Why the database refused a trial write. None if it accepted one.
    pub refused_write: Option<String>,
    /// What a check of every page of a SQLite file found. None for PostgreSQL, which checks its own pages.
    pub pages: Option<PageCheck>,
}

/// What a check of every page of a SQLite file found.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageCheck {
    /// Damaged parts of the file, in the words of SQLite; empty if it is intact.
    pub problems: Vec<String>,
    /// Whether the whole file was checked within the limit.
    pub is_complete: bool,
    /// Size of the file's write-ahead log.
    pub wal_bytes: u64,
}

impl Database {
    /// Selects a SQLite file. Opening the database creates the file if its directory exists.
    #[cfg(feature = "sqlite")]
    pub fn sqlite(path: impl Into<PathBuf>) -> Self {
        Self::Sqlite(path.into())
    }

    /// Selects a PostgreSQL server by its URL. Reads the certificate files that the URL names.
    #[cfg(feature = "postgres")]
    pub fn postgres(url: &str) -> Result<Self, InvalidUrl> {
        Self::parsed_postgres(PostgresUrl::parse(url)?)
    }

    /// Selects a PostgreSQL server by a parsed URL. Reads the certificate files that the URL names.
    #[cfg(feature = "postgres")]
    pub fn parsed_postgres(url: PostgresUrl) -> Result<Self, InvalidUrl> {
        url.into_config().map(|config| Self::Postgres(Box::new(config)))
    }

    /// Selects the schema of a PostgreSQL database that holds Posthaste's objects. The default is `app`. SQLite has no schemas.
    #[cfg(feature = "postgres")]
    pub fn in_schema(self, schema: SchemaName) -> Result<Self, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Err(DatabaseError::NoSchemas),
            Self::Postgres(config) => Ok(Self::Postgres(Box::new(config.in_schema(schema)))),
        }
    }

    /// Creates or migrates the schema and opens the store. `max_attempts` and `payload_bytes_max` become the settings
    /// of the SQL function with which producers enqueue inside PostgreSQL.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(unused_variables, reason = "SQLite has no function that enqueues")
    )]
    pub async fn open(
        &self,
        max_attempts: u32,
        payload_bytes_max: usize,
    ) -> Result<OpenStore, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(OpenStore::Sqlite(open_sqlite(path.clone()).await?)),
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => {
                let store = PostgresStore::open((**config).clone()).await?;
                store
                    .set_enqueue_function_defaults(EnqueueFunctionDefaults {
                        max_attempts,
                        payload_bytes_max,
                    })
                    .await?;
                Ok(OpenStore::Postgres(store))
            }
        }
    }

    /// Opens an existing database without changing it. Its schema must be the version that this program supports.
    pub async fn open_existing(&self) -> Result<OpenStore, DatabaseError> {
        match self.inspect().await? {
            None => return Err(DatabaseError::Missing),
            Some(health) if !health.is_current() => {
                return Err(DatabaseError::SchemaMismatch {
                    found: health.schema,
                    supported: health.schema_supported,
                });
            }
            Some(_) => {}
        }
        match self {
            // The schema is current, so opening migrates nothing.
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(OpenStore::Sqlite(open_sqlite(path.clone()).await?)),
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => Ok(OpenStore::Postgres(PostgresStore::connect((**config).clone()))),
        }
    }

    /// Reads the schema version and the clock without changing the database. Returns `None` if the database or its
    /// schema does not exist yet; the first start creates it.
    pub async fn inspect(&self) -> Result<Option<StoreHealth>, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) if !path.exists() && !can_be_created(path) => {
                Err(DatabaseError::DirectoryNotWritable(path.clone()))
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) if !path.exists() => Ok(None),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let path = path.clone();
                let clock = posthaste_store_sqlite::SystemClock;
                Ok(Some(blocking(move || posthaste_store_sqlite::inspect(path, &clock)).await?))
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => Ok(posthaste_store_postgres::inspect(config).await?),
        }
    }

    /// Compares the schema with what it should be, and tries the writes of an enqueue, a claim and a settle, which it rolls
    /// back. Reads every page of a SQLite file, for at most `limit`. The version of the schema must be current.
    #[cfg_attr(not(feature = "sqlite"), expect(unused_variables, reason = "only SQLite has pages to check"))]
    pub async fn check(&self, limit: Duration) -> Result<DatabaseCheck, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let (path, of_schema) = (path.clone(), path.clone());
                let schema_problems =
                    blocking(move || posthaste_store_sqlite::check_schema(of_schema)).await?;
                match blocking(move || posthaste_store_sqlite::check(path, limit)).await {
                    Ok(posthaste_store_sqlite::FileCheck { problems, is_complete, wal_bytes }) => {
                        let pages = Some(PageCheck { problems, is_complete, wal_bytes });
                        Ok(DatabaseCheck { schema_problems, refused_write: None, pages })
                    }
                    Err(error) if schema_problems.is_empty() => Err(error.into()),
                    Err(error) => {
                        let refused_write = Some(error.to_string());
                        Ok(DatabaseCheck { schema_problems, refused_write, pages: None })
                    }
                }
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => {
                let schema_problems = posthaste_store_postgres::check_schema(config).await?;
                let refused_write =
                    PostgresStore::try_writes(config).await.err().map(|error| error.to_string());
                Ok(DatabaseCheck { schema_problems, refused_write, pages: None })
            }
        }
    }

    /// Creates or migrates the schema.
    pub async fn migrate(&self) -> Result<MigrationReport, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let (path, of_schema) = (path.clone(), path.clone());
                let migrated = blocking(move || posthaste_store_sqlite::migrate(path)).await?;
                let problems = blocking(move || posthaste_store_sqlite::check_schema(of_schema)).await?;
                Ok(MigrationReport { from: migrated.from, to: migrated.to, problems })
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => {
                let migrated = posthaste_store_postgres::migrate(config).await?;
                let problems = posthaste_store_postgres::check_schema(config).await?;
                Ok(MigrationReport { from: migrated.from.into(), to: migrated.to.into(), problems })
            }
        }
    }
}

impl OpenStore {
    /// Returns the store as a trait object.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Closes the store, for all of its clones. A SQLite file is then complete, without a write-ahead log beside it.
    /// Returns false if closing took too long; the next start then replays the log.
    pub async fn close(self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => blocking(move || store.close()).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => true,
        }
    }
}

/// Access to the store with its concrete type, whose `enqueue_in` runs in the caller's transaction.
impl Posthaste {
    /// Returns the SQLite store if this instance uses SQLite.
    #[cfg(feature = "sqlite")]
    pub fn sqlite_store(&self) -> Option<&SqliteStore> {
        match &self.open_store {
            OpenStore::Sqlite(store) => Some(store),
            #[cfg(feature = "postgres")]
            OpenStore::Postgres(_) => None,
        }
    }

    /// Returns the PostgreSQL store if this instance uses PostgreSQL.
    #[cfg(feature = "postgres")]
    pub fn postgres_store(&self) -> Option<&PostgresStore> {
        match &self.open_store {
            OpenStore::Postgres(store) => Some(store),
            #[cfg(feature = "sqlite")]
            OpenStore::Sqlite(_) => None,
        }
    }
}

/// Creates the sender. Must be called on a tokio runtime, which then runs its connections.
pub(crate) fn sender(
    options: &SenderOptions,
    keys: SharedSigningKeys,
    profiles: SharedProfiles,
) -> Result<Arc<dyn Sender>, InvalidOptions> {
    Ok(Arc::new(HttpSender::new(options, keys, profiles)?))
}

/// Creates a resolver that uses the host's `getaddrinfo`.
pub(crate) fn system_resolver() -> Arc<dyn Resolver> {
    Arc::new(SystemResolver::new())
}

/// Counts the certificate authorities that a sender with this CA file would trust, including the system's.
pub fn count_authorities(ca_file: Option<&Path>) -> Result<usize, InvalidOptions> {
    HttpSender::count_authorities(ca_file)
}

/// Checks that a sender can use this CA file. Does not load the system's certificate authorities.
pub fn check_ca_file(ca_file: &Path) -> Result<(), InvalidOptions> {
    HttpSender::check_ca_file(ca_file)
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: PathBuf) -> Result<SqliteStore, SqliteError> {
    let open = move || {
        let clock = Arc::new(posthaste_store_sqlite::SystemClock);
        SqliteStore::open(path, clock, posthaste_store_sqlite::system_rng()?, Default::default())
    };
    blocking(open).await
}

/// Runs `work` on tokio's blocking thread pool, because it may wait for a file lock.
#[cfg(feature = "sqlite")]
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("opening a store does not panic")
}

/// Returns whether the file's directory exists and is writable.
#[cfg(feature = "sqlite")]
fn can_be_created(path: &Path) -> bool {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    directory.metadata().is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(all(feature = "sqlite", feature = "postgres"))]
    #[test]
    fn sqlite_has_no_schemas() {
        let refused = Database::sqlite("outbox.db").in_schema(SchemaName::default()).err();
        assert!(matches!(refused, Some(DatabaseError::NoSchemas)), "{refused:?}");
    }

    /// Concrete types, and paths into crates that contain a single adapter.
    const ADAPTERS: [&str; 7] = [
        "HttpSender",
        "SystemResolver",
        "DnsResolver",
        "SqliteStore",
        "PostgresStore",
        "store_sqlite::",
        "store_postgres::",
    ];

    fn sources(directory: &Path) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
        entries.flat_map(|path| if path.is_dir() { sources(&path) } else { vec![path] }).collect()
    }

    #[test]
    fn adapters_are_named_in_this_file_only() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let roots = ["posthaste", "config", "cli"].map(|name| crates.join(name).join("src"));
        let naming = roots.iter().flat_map(|root| sources(root)).filter(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            ADAPTERS.iter().any(|adapter| text.contains(adapter))
        });
        assert_eq!(naming.collect::<Vec<_>>(), [roots[0].join("wiring.rs")]);
    }

    #[test]
    fn error_of_a_schema_mismatch_says_what_to_do() {
        let message = |found| DatabaseError::SchemaMismatch { found, supported: 3 }.to_string();
        assert!(
            message(2).contains("version 2") && message(2).contains("posthaste migrate"),
            "{}",
            message(2)
        );
        assert!(
            message(4).contains("upgrade this one") && !message(4).contains("posthaste migrate"),
            "{}",
            message(4)
        );
    }
}
