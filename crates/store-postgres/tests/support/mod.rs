//! A store on a database of its own, whose clock tests can move.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_postgres_server::{Database, PostgresServer};
use posthaste_store::Store;
use posthaste_store_conformance::Harness;
use posthaste_store_postgres::{PostgresConfig, PostgresStore, SchemaName};

/// Two stores on a database of their own.
pub(crate) struct PostgresHarness {
    pub(crate) database: Database,
    store: Arc<PostgresStore>,
    second: Arc<PostgresStore>,
    schema: SchemaName,
    /// How far the clock is ahead of the server's.
    clock_offset: Mutex<Duration>,
}

/// Returns the name of a database with this schema, of which each harness gets a copy.
fn template(schema: &SchemaName) -> String {
    static TEMPLATES: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
    let mut templates = TEMPLATES.lock().expect("no holder of this lock panics");
    let create = || {
        let schema = schema.clone();
        let database = PostgresServer::shared().create_database("template");
        let url = database.url.clone();
        let migrated = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime can be made").block_on(async {
                let config = PostgresConfig::from_url(&url).expect("the URL is the server's own");
                posthaste_store_postgres::migrate(&config.in_schema(schema)).await
            })
        });
        migrated.join().expect("migrating does not panic").expect("a fresh database can be migrated");
        database.name.clone()
    };
    templates.entry(schema.to_string()).or_insert_with(create).clone()
}

impl PostgresHarness {
    pub(crate) async fn start() -> Self {
        Self::start_in(SchemaName::default()).await
    }

    pub(crate) async fn start_in(schema: SchemaName) -> Self {
        let database = PostgresServer::shared().create_database_from(&template(&schema));
        let config = PostgresConfig::from_url(&database.url).expect("the URL is the server's own");
        let config = config.in_schema(schema.clone());
        let store = Arc::new(PostgresStore::connect(config.clone()));
        let second = Arc::new(PostgresStore::connect(config));
        Self { database, store, second, schema, clock_offset: Mutex::default() }
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
            "CREATE OR REPLACE FUNCTION \"{}\".webhook_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
             AS 'SELECT statement_timestamp() + interval ''{micros} microseconds'''",
            self.schema
        );
        PostgresServer::shared().psql(&self.database.name, &sql).expect("the clock can be moved");
    }
}
