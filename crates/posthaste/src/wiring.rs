//! Which adapters stand behind the ports: stores, senders, resolvers. Nothing else in this crate names them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use posthaste_domain::signature::SigningKeys;
use posthaste_engine::Sender;
use posthaste_sender::{HttpSender, InvalidOptions, Resolver, SenderOptions, SystemResolver};
use posthaste_store::{Store, StoreError, StoreHealth};
#[cfg(feature = "postgres")]
use posthaste_store_postgres::{
    EnqueueFunctionDefaults, InvalidUrl, MigrateError, PostgresConfig, PostgresStore,
};
#[cfg(feature = "sqlite")]
use posthaste_store_sqlite::{OpenError as SqliteError, SqliteStore};

/// Where events are kept.
#[derive(Clone)]
pub enum Database {
    /// One file, for one host.
    #[cfg(feature = "sqlite")]
    Sqlite(PathBuf),
    /// A server, for many workers.
    #[cfg(feature = "postgres")]
    Postgres(Box<PostgresConfig>),
}

#[derive(Debug, thiserror::Error)]
pub enum DatabaseError {
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Url(#[from] InvalidUrl),
    #[cfg(feature = "sqlite")]
    #[error(transparent)]
    Sqlite(#[from] SqliteError),
    #[cfg(feature = "postgres")]
    #[error(transparent)]
    Postgres(#[from] MigrateError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("there is no database yet; start `posthaste serve`, or name the right one with --database-url")]
    None,
    #[error(
        "the schema has version {found}, and this Posthaste works with {known}; {}",
        if found > known { "a newer one has been here: upgrade this one" } else { "run `posthaste migrate`" }
    )]
    OtherSchema { found: i64, known: i64 },
    #[error("{} cannot be created: its directory does not exist or cannot be written to; create it", .0.display())]
    NoPlace(PathBuf),
}

/// A store that has been opened, under its own type, for callers who enqueue in their own transactions.
#[derive(Clone)]
pub enum Opened {
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteStore),
    #[cfg(feature = "postgres")]
    Postgres(PostgresStore),
}

/// What a migration did, in versions of the schema; 0 is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MigrationReport {
    pub from: i64,
    pub to: i64,
}

impl Database {
    #[cfg(feature = "postgres")]
    pub fn postgres(url: &str) -> Result<Self, InvalidUrl> {
        PostgresConfig::from_url(url).map(|config| Self::Postgres(Box::new(config)))
    }

    /// Creates the schema or brings it up to date, and opens the store. Producers who enqueue in the database itself
    /// get so many attempts where they ask for nothing else, and may have payloads so large.
    #[cfg_attr(
        not(feature = "postgres"),
        expect(unused_variables, reason = "SQLite has no producers beside this library")
    )]
    pub async fn open(&self, max_attempts: u32, payload_bytes_max: usize) -> Result<Opened, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(Opened::Sqlite(open_sqlite(path.clone()).await?)),
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => {
                let store = PostgresStore::open((**config).clone()).await?;
                store
                    .set_enqueue_function_defaults(EnqueueFunctionDefaults {
                        max_attempts,
                        payload_bytes_max,
                    })
                    .await?;
                Ok(Opened::Postgres(store))
            }
        }
    }

    /// Opens what is there and changes nothing about it; the schema must be the one that this program works with.
    pub async fn attach(&self) -> Result<Opened, DatabaseError> {
        match self.examine().await? {
            None => return Err(DatabaseError::None),
            Some(health) if !health.is_current() => {
                return Err(DatabaseError::OtherSchema {
                    found: health.schema,
                    known: health.schema_supported,
                });
            }
            Some(_) => {}
        }
        match self {
            // Nothing is left for it to migrate.
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => Ok(Opened::Sqlite(open_sqlite(path.clone()).await?)),
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => Ok(Opened::Postgres(PostgresStore::connect((**config).clone()))),
        }
    }

    /// Looks at it and changes nothing; none where the first start will create it, or its schema.
    pub async fn examine(&self) -> Result<Option<StoreHealth>, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) if !path.exists() && !can_be_created(path) => {
                Err(DatabaseError::NoPlace(path.clone()))
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
            Self::Postgres(config) => Ok(posthaste_store_postgres::examine(config).await?),
        }
    }

    pub async fn migrate(&self) -> Result<MigrationReport, DatabaseError> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(path) => {
                let path = path.clone();
                let migrated = blocking(move || posthaste_store_sqlite::migrate(path)).await?;
                Ok(MigrationReport { from: migrated.from, to: migrated.to })
            }
            #[cfg(feature = "postgres")]
            Self::Postgres(config) => {
                let migrated = posthaste_store_postgres::migrate(config).await?;
                Ok(MigrationReport { from: migrated.from.into(), to: migrated.to.into() })
            }
        }
    }
}

impl Opened {
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Arc::new(store.clone()),
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => Arc::new(store.clone()),
        }
    }

    /// Closes it for everybody who holds it. A file then has everything that it was given, without a log beside it; a
    /// server has had it all along. False where that took too long: the log is then read at the next start.
    pub async fn close(self) -> bool {
        match self {
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => blocking(move || store.close()).await,
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => true,
        }
    }
}

/// What sends to receivers. On a tokio runtime, which then looks after its connections.
pub(crate) fn sender(options: SenderOptions, keys: SigningKeys) -> Result<Arc<dyn Sender>, InvalidOptions> {
    Ok(Arc::new(HttpSender::new(options, keys)?))
}

/// What looks names up as the host does.
pub fn system_resolver() -> Arc<dyn Resolver> {
    Arc::new(SystemResolver::new())
}

/// How many certificate authorities receivers may be verified by, those of the file among them.
pub fn authorities(ca_file: Option<&Path>) -> Result<usize, InvalidOptions> {
    HttpSender::count_authorities(ca_file)
}

/// Whether a file of certificate authorities can be used. The system's own are not looked at.
pub fn check_authorities(ca_file: &Path) -> Result<(), InvalidOptions> {
    HttpSender::check_ca_file(ca_file)
}

/// What is wrong with the text of a PostgreSQL URL, without what anybody who has the rule knows. No file is read.
#[cfg(feature = "postgres")]
pub fn check_postgres_url(url: &str) -> Result<(), String> {
    PostgresConfig::check_url(url).map_err(|error| match error {
        InvalidUrl::Malformed(reason) => reason,
        error => error.to_string(),
    })
}

#[cfg(feature = "sqlite")]
async fn open_sqlite(path: PathBuf) -> Result<SqliteStore, SqliteError> {
    let open = move || {
        let clock = Arc::new(posthaste_store_sqlite::SystemClock);
        SqliteStore::open(path, clock, posthaste_store_sqlite::system_rng()?, Default::default())
    };
    blocking(open).await
}

/// Opening a file may wait for whoever holds it locked.
#[cfg(feature = "sqlite")]
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("opening a store does not panic")
}

#[cfg(feature = "sqlite")]
fn can_be_created(path: &Path) -> bool {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    directory.metadata().is_ok_and(|found| found.is_dir() && !found.permissions().readonly())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Concrete types, and crates that hold nothing but one adapter.
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
    fn adapters_are_named_here_and_nowhere_else() {
        let crates = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let roots = ["posthaste", "config", "cli"].map(|name| crates.join(name).join("src"));
        let naming = roots.iter().flat_map(|root| sources(root)).filter(|path| {
            let text = std::fs::read_to_string(path).unwrap();
            ADAPTERS.iter().any(|adapter| text.contains(adapter))
        });
        assert_eq!(naming.collect::<Vec<_>>(), [roots[0].join("wiring.rs")]);
    }

    #[test]
    fn a_schema_of_another_version_is_told_with_the_way_out() {
        let told = |found| DatabaseError::OtherSchema { found, known: 3 }.to_string();
        assert!(told(2).contains("version 2") && told(2).contains("posthaste migrate"), "{}", told(2));
        assert!(
            told(4).contains("upgrade this one") && !told(4).contains("posthaste migrate"),
            "{}",
            told(4)
        );
    }
}
