//! Late results on PostgreSQL: transactions that wait for each other record one row per lease token, and none of an event
//! that is gone.

use posthaste_domain::{EventId, Lease};
use posthaste_store::{SettleResult, Store};
use posthaste_store_postgres::PostgresStore;
use posthaste_store_postgres::tokio_postgres::Client;

use crate::fixture::*;
use crate::support::PostgresHarness;

async fn count_attempts(client: &Client) -> i64 {
    client.query_one("SELECT count(*) FROM app.webhook_attempts", &[]).await.unwrap().get(0)
}

/// Enqueues an event, claims it and cancels it in flight. Returns its id and the lease that was lost.
async fn cancel_in_flight(store: &dyn Store) -> (EventId, Lease) {
    let event_id = enqueue(store, spec()).await;
    let lease = claim_one(store).await;
    store.cancel(&event_id, "operator".into(), None).await.unwrap();
    (event_id, lease)
}

/// Begins a transaction that records the late result of a lease, like that of another call.
async fn begin_recording(client: &Client, lease: &Lease) {
    client.batch_execute("BEGIN").await.unwrap();
    let lock = "SELECT FROM app.webhook_events WHERE id = $1 FOR NO KEY UPDATE";
    client.execute(lock, &[&lease.key.0]).await.unwrap();
    let insert = "
        INSERT INTO app.webhook_attempts (
            event_key, lease_claim, recorded_at, started_at, duration_us, attempt, http_status, trigger, worker_id, excerpt,
            applied
        )
        -- The function is its own inverse: it returns the claim of a token.
        VALUES ($1, app.webhook_lease_token($2, $1), now(), now(), 1, 1, 200, 'scheduled', 'worker-a', '', false)";
    client.execute(insert, &[&lease.key.0, &lease.token.as_uuid()]).await.unwrap();
}

/// Waits until a statement waits for a lock.
async fn wait_until_blocked(client: &Client) {
    wait_until(TIMEOUT, "a statement waits for the lock", async || {
        let sql = "
            SELECT count(*) FROM pg_stat_activity
            WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%webhook_events%'";
        client.query_one(sql, &[]).await.unwrap().get::<_, i64>(0) > 0
    })
    .await;
}

#[tokio::test]
async fn a_repeated_late_result_waits_for_the_first_and_is_not_recorded_again() {
    let harness = PostgresHarness::start().await;
    let store = PostgresStore::connect(config(&harness.database.url));
    let (event_id, lease) = cancel_in_flight(&store).await;
    let (first, observer) = (client(&harness.database.url).await, client(&harness.database.url).await);
    begin_recording(&first, &lease).await;
    let lost = [lease];
    let repeated = settle(&store, &lost, 200);
    let commit = async {
        wait_until_blocked(&observer).await;
        first.batch_execute("COMMIT").await.unwrap();
    };
    let (settled, ()) = futures_util::future::join(repeated, commit).await;
    assert_eq!(settled, [SettleResult::Stale]);
    assert_eq!(store.event(&event_id).await.unwrap().history.len(), 1);
    assert_eq!(count_attempts(&observer).await, 1);
}

#[tokio::test]
async fn a_discard_that_waits_for_a_late_result_removes_it() {
    let harness = PostgresHarness::start().await;
    let store = PostgresStore::connect(config(&harness.database.url));
    let (event_id, lease) = cancel_in_flight(&store).await;
    let (first, observer) = (client(&harness.database.url).await, client(&harness.database.url).await);
    begin_recording(&first, &lease).await;
    let discard = store.discard(&event_id, "operator".into(), None);
    let commit = async {
        wait_until_blocked(&observer).await;
        first.batch_execute("COMMIT").await.unwrap();
    };
    let (discarded, ()) = futures_util::future::join(discard, commit).await;
    discarded.unwrap();
    assert_eq!(count_attempts(&observer).await, 0, "no attempt of an event that is gone");
    assert_eq!(settle(&store, &[lease], 200).await, [SettleResult::Stale]);
    assert_eq!(count_attempts(&observer).await, 0);
}

#[tokio::test]
async fn thousands_of_late_results_fit_in_one_call() {
    let harness = PostgresHarness::start().await;
    let store = PostgresStore::connect(config(&harness.database.url));
    let mut leases = Vec::new();
    for _ in 0..5 {
        enqueue_all(&store, (0..1_000).map(|_| spec()).collect()).await;
        leases.extend(claim(&store).await);
    }
    let client = client(&harness.database.url).await;
    // An expiry by another process, in short: the leases are gone.
    client
        .batch_execute("UPDATE app.webhook_queue SET lease_until = NULL, lease_claim = NULL")
        .await
        .unwrap();
    for _ in 0..2 {
        let settled = settle(&store, &leases, 200).await;
        assert!(settled.iter().all(|settled| *settled == SettleResult::Stale));
        assert_eq!(count_attempts(&client).await, i64::try_from(leases.len()).unwrap());
    }
    assert_eq!(store.overview().await.unwrap().delivered, 0);
}
