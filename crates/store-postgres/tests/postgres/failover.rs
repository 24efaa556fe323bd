//! A primary that is gone, and a standby in its place.

use posthaste_domain::DeliveryStatus;
use posthaste_postgres_server::{FOR_TESTS, PostgresServer, StopMode};
use posthaste_store::{ClaimRequest, HeldLease, Settled, Store as _};

use crate::fixture::*;

#[tokio::test]
async fn the_store_goes_on_with_a_standby_that_was_promoted() {
    let primary = PostgresServer::start(FOR_TESTS).unwrap_or_else(|error| panic!("{error}"));
    let database = primary.create_database("failover");
    let standby = primary.standby().unwrap_or_else(|error| panic!("{error}"));
    let url = format!(
        "postgres://postgres@127.0.0.1:{},127.0.0.1:{}/{}?target_session_attrs=read-write",
        standby.port(),
        primary.port(),
        database.name
    );
    // The standby is named first and refuses writes: the primary is found behind it.
    let store = open(&url).await;
    let stored = enqueue_all(&store, (0..50).map(|_| spec()).collect()).await;
    let leases = store.claim(&ClaimRequest { limit: 20, ..claim_by("worker-a") }).await.unwrap().leases;
    let (ended, held) = leases.split_at(10);
    settle(&store, ended, 200).await;
    let written = say(&primary, "postgres", "SELECT pg_current_wal_lsn()");
    let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    let follower = client(&standby.url("postgres")).await;
    until(3 * SOON, "the standby has everything", async || {
        follower.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0)
    })
    .await;

    primary.stop(StopMode::Immediate).unwrap();
    let down = store.overview().await.expect_err("the primary is gone");
    assert!(down.is_transient(), "{down:?}");
    standby.promote().unwrap();

    until(3 * SOON, "the store finds the new primary", async || store.overview().await.is_ok()).await;
    let holding: Vec<HeldLease> = held.iter().map(HeldLease::from).collect();
    let mut renewed = None;
    until(SOON, "leases are renewed on the new primary", async || {
        renewed = store.renew(&holding, LEASE).await.ok();
        renewed.is_some()
    })
    .await;
    assert_eq!(renewed, Some(Vec::new()), "no lease was lost");
    until(SOON, "a settle goes through", async || {
        let batch: Vec<_> = held.iter().map(|lease| settlement(lease, 200)).collect();
        let settled = store.settle(&worker("worker-a"), &batch).await;
        settled.is_ok_and(|settled| settled.iter().all(|settled| settled.is_written()))
    })
    .await;
    assert_eq!(settle(&store, ended, 200).await, [Settled::Replayed; 10]);
    settle(&store, &claim(&store).await, 200).await;
    until(SOON, "producers find it, too", async || store.enqueue(&[request(vec![spec()])]).await.is_ok())
        .await;
    assert_eq!(claim(&store).await.len(), 1);
    for event_id in &stored {
        assert_eq!(store.event(event_id).await.unwrap().event.status, DeliveryStatus::Delivered);
    }
}
