//! Runs random operations on PostgreSQL and on the reference model, and compares the results.

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

/// A harness that all sequences share: emptying its database is far faster than creating another.
struct ReusableHarness {
    /// Owns the database. Its stores are not used.
    database: PostgresHarness,
    client: Client,
    sequence: Mutex<SequenceState>,
}

/// State that each sequence gets anew. Stores keep state of their own, so each sequence gets new stores.
struct SequenceState {
    stores: [Arc<PostgresStore>; 2],
    clock_offset: Duration,
}

impl SequenceState {
    fn new(database: &PostgresHarness) -> Self {
        let config = PostgresConfig::from_url(&database.database.url).expect("the URL is the server's own");
        // The model's claims are complete.
        let config = config.looking_every(Duration::ZERO);
        let store = || Arc::new(PostgresStore::connect(config.clone()));
        Self { stores: [store(), store()], clock_offset: Duration::ZERO }
    }
}

impl ReusableHarness {
    async fn start() -> Self {
        let database = PostgresHarness::start().await;
        let (client, connection) = connect(&database.database.url, NoTls).await.expect("the server is up");
        tokio::spawn(connection);
        Self { client, sequence: Mutex::new(SequenceState::new(&database)), database }
    }

    /// Deletes all rows, resets the clock and replaces the stores.
    async fn reset(&self) {
        let new = SequenceState::new(&self.database);
        let old = std::mem::replace(&mut *self.sequence.lock().expect("no holder of this lock panics"), new);
        drop(old);
        let tables = [
            "destinations",
            "events",
            "queue",
            "failures",
            "attempts",
            "claims",
            "counts",
            "notices",
            "idempotency",
            "audit",
            "discarded_events",
            "circuits",
            "destination_audit",
            "answers",
            "applications",
            "endpoints",
            "event_types",
            "fifo_lines",
            "messages",
            "operations",
            "sealed_values",
            "subscriptions",
            "bulk_operations",
            "activity",
            "workers",
        ];
        let delete = tables.map(|table| format!("DELETE FROM app.webhook_{table};"));
        self.client.batch_execute(&delete.concat()).await.expect("no other client uses the database");
        self.set_clock(Duration::ZERO).await;
    }

    async fn set_clock(&self, offset: Duration) {
        let sql = format!(
            "CREATE OR REPLACE FUNCTION app.webhook_now() RETURNS timestamptz LANGUAGE sql STABLE PARALLEL SAFE
             AS 'SELECT statement_timestamp() + interval ''{} microseconds'''",
            offset.as_micros()
        );
        self.client.batch_execute(&sql).await.expect("the clock can be moved");
    }

    fn handle(&self, number: usize) -> Arc<dyn Store> {
        let sequence = self.sequence.lock().expect("no holder of this lock panics");
        Arc::clone(&sequence.stores[number]) as Arc<dyn Store>
    }
}

#[async_trait]
impl Harness for ReusableHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.handle(0)
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.handle(1)
    }

    async fn advance(&self, by: Duration) {
        let offset = {
            let mut sequence = self.sequence.lock().expect("no holder of this lock panics");
            sequence.clock_offset += by;
            sequence.clock_offset
        };
        self.set_clock(offset).await;
    }
}

#[test]
fn the_postgres_store_behaves_like_the_reference_model() {
    Comparison::new(400)
        .allow_late_attempt_removal()
        .allow_skipped_limits()
        .run_on_shared_store(ReusableHarness::start, ReusableHarness::reset);
}
