//! A store on a database of its own, whose clock tests can move.

use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::Store;
use posthaste_store_conformance::Harness;
use posthaste_store_postgres::{PostgresConfig, PostgresStore};

/// Two stores on a database of their own.
pub(crate) struct PostgresHarness {
    pub(crate) database: Database,
    store: Arc<PostgresStore>,
    second: Arc<PostgresStore>,
    /// How far the clock is ahead of the server's.
    clock_offset: Mutex<Duration>,
}

/// The name of a migrated database, of which each harness gets a copy.
fn template() -> &'static str {
    static TEMPLATE: std::sync::OnceLock<String> = std::sync::OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let database = PostgresServer::shared().create_database("template");
        let url = database.url.clone();
        let migrated = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let config = PostgresConfig::from_url(&url).expect("the URL is the server's own");
                posthaste_store_postgres::migrate(&config).await
            })
        });
        migrated.join().expect("migrating does not panic").expect("a fresh database can be migrated");
        database.name.clone()
    })
}

impl PostgresHarness {
    pub(crate) async fn start() -> Self {
        let database = PostgresServer::shared().create_database_from(template());
        let config = PostgresConfig::from_url(&database.url).expect("the URL is the server's own");
        let store = Arc::new(PostgresStore::connect(config.clone()));
        let second = Arc::new(PostgresStore::connect(config));
        Self { database, store, second, clock_offset: Mutex::default() }
    }
}

#[async_trait]
impl Harness for PostgresHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store) as Arc<dyn Store>
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        Arc::clone(&self.second) as Arc<dyn Store>
    }

    async fn advance(&self, by: Duration) {
        self.move_clock(|offset| offset + by);
    }

    async fn step_back(&self, by: Duration) {
        self.move_clock(|offset| offset - by);
    }
}

impl PostgresHarness {
    /// Moves the clock by replacing the schema's clock function, which takes effect in every session.
    fn move_clock(&self, change: impl FnOnce(Duration) -> Duration) {
        let micros = {
            let mut offset = self.clock_offset.lock().expect("no holder of this lock panics");
            *offset = change(*offset);
            offset.as_micros()
        };
        let sql = format!(
            "CREATE OR REPLACE FUNCTION app.webhook_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
             AS 'SELECT statement_timestamp() + interval ''{micros} microseconds'''"
        );
        PostgresServer::shared().psql(&self.database.name, &sql).expect("the clock can be moved");
    }
}
