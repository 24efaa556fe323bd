//! The check of writes: health follows it, and an error names what is missing.

use posthaste_postgres_server::{PostgresServer, TEST_SETTINGS};
use posthaste_store::Store as _;
use posthaste_store_postgres::PostgresStore;

use crate::fixture::*;
use crate::support::PostgresHarness;

#[tokio::test]
async fn health_fails_when_a_table_or_a_column_is_missing_and_names_it() {
    for (damage, repair, words) in [
        (
            "ALTER TABLE app.webhook_attempts RENAME TO elsewhere",
            "ALTER TABLE app.elsewhere RENAME TO webhook_attempts",
            "relation \"app.webhook_attempts\" does not exist",
        ),
        (
            "ALTER TABLE app.webhook_claims RENAME COLUMN owner TO other",
            "ALTER TABLE app.webhook_claims RENAME COLUMN other TO owner",
            "column \"owner\"",
        ),
        (
            "ALTER FUNCTION app.webhook_destination_id(text) RENAME TO other",
            "ALTER FUNCTION app.other(text) RENAME TO webhook_destination_id",
            "function app.webhook_destination_id(text) does not exist",
        ),
        (
            "DROP INDEX app.webhook_destinations_url",
            "CREATE UNIQUE INDEX webhook_destinations_url ON app.webhook_destinations (url) WHERE kind = 'url'",
            "ON CONFLICT",
        ),
    ] {
        let harness = PostgresHarness::start().await;
        let (server, name) = (PostgresServer::shared(), &harness.database.name);
        let store = PostgresStore::connect(config(&harness.database.url));
        store.health().await.unwrap();
        query_text(server, name, damage);
        let refused = store.check_writes().await.unwrap_err();
        assert!(refused.to_string().contains(words), "{damage}: {refused}");
        // A write that fails makes the last check invalid.
        let failed = store.claim(&claim_by("worker-a")).await.is_err();
        if !failed {
            store.enqueue(request(vec![spec()])).await.map(drop).unwrap_or_default();
            let leases =
                store.claim(&claim_by("worker-b")).await.map(|claimed| claimed.leases).unwrap_or_default();
            let batch: Vec<_> = leases.iter().map(|lease| settlement(lease, 200)).collect();
            let _ = store.settle(&worker("worker-b"), &batch).await;
        }
        let unhealthy = store.health().await.unwrap_err();
        assert!(unhealthy.to_string().contains(words), "{damage}: {unhealthy}");
        query_text(server, name, repair);
        store.health().await.unwrap();
        drop(harness);
    }
}

#[tokio::test]
async fn without_its_synchronous_standby_nothing_is_acknowledged_and_health_fails_within_its_bound() {
    let server = PostgresServer::start(TEST_SETTINGS).unwrap();
    let database = server.create_database("standby");
    let store = open(&database.url).await;
    store.health().await.unwrap();
    let set = |names: &str| {
        query_text(&server, "postgres", &format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        query_text(&server, "postgres", "SELECT pg_reload_conf()");
    };
    set("gone");
    // pg_reload_conf() returns before the server has read the setting, so the first enqueues may still be acknowledged.
    wait_until(2 * TIMEOUT, "the server waits for its standby", async || {
        store.enqueue(request(vec![spec()])).await.is_err()
    })
    .await;
    // The refused enqueue still holds the row of its destination.
    let elsewhere = request(vec![spec_to("https://elsewhere.example/hook")]);
    let enqueued = within(2 * TIMEOUT, "the enqueue is answered", store.enqueue(elsewhere)).await;
    assert!(enqueued.unwrap_err().is_transient(), "acknowledged without the standby");
    for _ in 0..2 {
        let unhealthy = expect_soon("health is answered", store.health()).await.unwrap_err();
        assert!(unhealthy.to_string().contains("synchronous standbys"), "{unhealthy}");
    }
    set("");
    wait_until(TIMEOUT, "the store is healthy", async || store.health().await.is_ok()).await;
}
