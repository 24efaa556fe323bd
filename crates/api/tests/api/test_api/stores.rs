//! The stores that the tests run on. Each test has its own.

use std::sync::{Arc, OnceLock};

use posthaste_domain::Timestamp;
use posthaste_postgres_server::PostgresServer;
use posthaste_store_memory::{ManualClock, MemoryStore};
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use posthaste_store_sqlite::{Options, SqliteStore, SystemClock};
use rand::SeedableRng as _;
use rand::rngs::StdRng;

use super::TestApi;

/// A memory store with a manual clock.
pub(crate) fn memory_at(secs: i64) -> (MemoryStore, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(Timestamp::from_secs(secs)));
    (MemoryStore::new(clock.clone(), 1), clock)
}

impl TestApi {
    /// The clock is stopped at 2023-11-14T22:13:20Z.
    pub(crate) async fn on_memory() -> Self {
        let (store, _) = memory_at(1_700_000_000);
        Self::on_store(Arc::new(store), Arc::new(()))
    }

    pub(crate) async fn on_sqlite() -> Self {
        let directory = tempfile::tempdir().expect("temporary directories can be created");
        let path = directory.path().join("outbox.db");
        let random = StdRng::seed_from_u64(1);
        let store = SqliteStore::open(path, Arc::new(SystemClock), random, Options::default());
        Self::on_store(Arc::new(store.expect("a new file can be opened")), Arc::new(directory))
    }

    pub(crate) async fn on_postgres() -> Self {
        let database = PostgresServer::shared().create_database_from(template());
        let config = PostgresConfig::from_url(&database.url).expect("the test server's URL is valid");
        Self::on_store(Arc::new(PostgresStore::connect(config)), Arc::new(database))
    }
}

/// Returns the name of a migrated database. Each test gets a copy of it.
fn template() -> &'static str {
    static TEMPLATE: OnceLock<String> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let database = PostgresServer::shared().create_database("template");
        let url = database.url.clone();
        let migrated = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let config = PostgresConfig::from_url(&url).expect("the test server's URL is valid");
                posthaste_store_postgres::migrate(&config).await
            })
        });
        migrated.join().expect("migrating does not panic").expect("a fresh database can be migrated");
        database.name.clone()
    })
}
