//! Random operations on PostgreSQL and on the reference model, side by side.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_store::Store;
use posthaste_store_comparison::Comparison;
use posthaste_store_conformance::Harness;
use posthaste_store_postgres::tokio_postgres::{Client, NoTls, connect};
use posthaste_store_postgres::{PostgresConfig, PostgresStore};
use support::PostgresHarness;

/// One database for all sequences: emptying it is far faster than making another.
struct Reused {
    /// Keeps the database, whose own stores are not used.
    database: PostgresHarness,
    client: Client,
    now: Mutex<Now>,
}

/// What a sequence begins with anew. Stores remember what they have seen, so each sequence gets its own.
struct Now {
    stores: [Arc<PostgresStore>; 2],
    moved: Duration,
}

impl Now {
    fn of(database: &PostgresHarness) -> Self {
        let config = PostgresConfig::from_url(&database.database.url).expect("the URL is the server's own");
        let store = || Arc::new(PostgresStore::connect(config.clone()));
        Self { stores: [store(), store()], moved: Duration::ZERO }
    }
}

impl Reused {
    async fn start() -> Self {
        let database = PostgresHarness::start().await;
        let (client, connection) = connect(&database.database.url, NoTls).await.expect("the server is up");
        tokio::spawn(connection);
        Self { client, now: Mutex::new(Now::of(&database)), database }
    }

    async fn empty(&self) {
        let new = Now::of(&self.database);
        let old = std::mem::replace(&mut *self.now.lock().expect("nobody has panicked with it"), new);
        drop(old);
        let tables = [
            "messages",
            "destinations",
            "events",
            "queue",
            "endings",
            "attempts",
            "claims",
            "counts",
            "notices",
            "idempotency",
            "audit",
        ];
        let delete = tables.map(|table| format!("DELETE FROM app.webhook_{table};"));
        self.client.batch_execute(&delete.concat()).await.expect("nobody else is there");
        self.set_clock(Duration::ZERO).await;
    }

    async fn set_clock(&self, moved: Duration) {
        let sql = format!(
            "CREATE OR REPLACE FUNCTION app.webhook_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
             AS 'SELECT statement_timestamp() + interval ''{} microseconds'''",
            moved.as_micros()
        );
        self.client.batch_execute(&sql).await.expect("the clock can be moved");
    }

    fn handle(&self, number: usize) -> Arc<dyn Store> {
        let now = self.now.lock().expect("nobody has panicked with it");
        Arc::clone(&now.stores[number]) as Arc<dyn Store>
    }
}

#[async_trait]
impl Harness for Reused {
    fn store(&self) -> Arc<dyn Store> {
        self.handle(0)
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.handle(1)
    }

    async fn advance(&self, by: Duration) {
        let moved = {
            let mut now = self.now.lock().expect("nobody has panicked with it");
            now.moved += by;
            now.moved
        };
        self.set_clock(moved).await;
    }
}

#[test]
fn the_store_on_postgres_does_what_the_model_does() {
    Comparison::of(400).attempts_may_linger().run_on_one(Reused::start, Reused::empty);
}
