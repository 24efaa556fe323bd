//! Failover from a crashed primary to its standby.

use posthaste_domain::DeliveryStatus;
use posthaste_postgres_server::{PostgresServer, StopMode, TEST_SETTINGS};
use posthaste_store::{ClaimRequest, LeaseRef, SettleResult, Store as _};

use crate::fixture::*;

#[tokio::test]
async fn the_store_continues_on_a_promoted_standby() {
    let primary = PostgresServer::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
    let database = primary.create_database("failover");
    let standby = primary.start_standby().unwrap_or_else(|error| panic!("{error}"));
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{}?target_session_attrs=read-write",
        standby.port(),
        primary.port(),
        database.name
    );
    // The standby is the first host and accepts no writes, so the store must use the second host.
    let store = open(&url).await;
    let stored = enqueue_all(&store, (0..50).map(|_| spec()).collect()).await;
    let leases = store.claim(&ClaimRequest { limit: 20, ..claim_by("worker-a") }).await.unwrap().leases;
    let (settled, held) = leases.split_at(10);
    settle(&store, settled, 200).await;
    let written = query_text(&primary, "postgres", "SELECT pg_current_wal_lsn()");
    let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    let follower = client(&standby.url("postgres")).await;
    wait_until(3 * TIMEOUT, "the standby has replayed every write", async || {
        follower.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0)
    })
    .await;

    primary.stop(StopMode::Immediate).unwrap();
    let down = store.overview().await.expect_err("the primary is stopped");
    assert!(down.is_transient(), "{down:?}");
    standby.promote().unwrap();

    wait_until(3 * TIMEOUT, "the store finds the new primary", async || store.overview().await.is_ok()).await;
    let holding: Vec<LeaseRef> = held.iter().map(LeaseRef::from).collect();
    let mut renewed = None;
    wait_until(TIMEOUT, "leases are renewed on the new primary", async || {
        renewed = store.renew(&holding, LEASE).await.ok();
        renewed.is_some()
    })
    .await;
    assert_eq!(renewed, Some(Vec::new()), "no lease was lost");
    wait_until(TIMEOUT, "a settle succeeds", async || {
        let batch: Vec<_> = held.iter().map(|lease| settlement(lease, 200)).collect();
        let results = store.settle(&worker("worker-a"), &batch).await;
        results.is_ok_and(|results| results.iter().all(|result| result.is_written()))
    })
    .await;
    assert_eq!(settle(&store, settled, 200).await, [SettleResult::Replayed; 10]);
    settle(&store, &claim(&store).await, 200).await;
    wait_until(TIMEOUT, "an enqueue succeeds", async || store.enqueue(request(vec![spec()])).await.is_ok())
        .await;
    assert_eq!(claim(&store).await.len(), 1);
    for event_id in &stored {
        assert_eq!(store.event(event_id).await.unwrap().event.status, DeliveryStatus::Delivered);
    }
}
