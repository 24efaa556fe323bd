//! Failover from a crashed primary to its standby, with and without the loss of commits.

use posthaste_domain::{DeliveryStatus, EventId};
use posthaste_postgres_server::{PostgresServer, StopMode, TEST_SETTINGS};
use posthaste_store::{ClaimRequest, LeaseRef, SettleResult, Store as _};

use crate::fixture::*;

/// The URL of a database on whichever of two servers accepts writes.
fn url_of_both(first: &PostgresServer, second: &PostgresServer, database: &str) -> String {
    let (first, second) = (first.port(), second.port());
    format!(
        "postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/{database}?target_session_attrs=read-write"
    )
}

/// Waits until the standby has replayed every write of the primary.
async fn wait_for_replay(primary: &PostgresServer, standby: &PostgresServer) {
    let written = query_text(primary, "postgres", "SELECT pg_current_wal_lsn()");
    let sql = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
    let follower = client(&standby.url("postgres")).await;
    wait_until(3 * TIMEOUT, "the standby has replayed every write", async || {
        follower.query_one(&sql, &[]).await.unwrap().get::<_, bool>(0)
    })
    .await;
}

#[tokio::test]
async fn the_store_continues_on_a_promoted_standby() {
    let primary = PostgresServer::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
    let database = primary.create_database("failover");
    let standby = primary.start_standby().unwrap_or_else(|error| panic!("{error}"));
    // The standby is the first host and accepts no writes, so the store must use the second host.
    let url = url_of_both(&standby, &primary, &database.name);
    let store = open(&url).await;
    let stored = enqueue_all(&store, (0..50).map(|_| spec()).collect()).await;
    let leases = store.claim(&ClaimRequest { limit: 20, ..claim_by("worker-a") }).await.unwrap().leases;
    let (settled, held) = leases.split_at(10);
    settle(&store, settled, 200).await;
    wait_for_replay(&primary, &standby).await;

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

#[tokio::test]
async fn after_a_failover_that_lost_commits_readers_of_the_notice_log_get_every_later_notice() {
    let primary = PostgresServer::start(TEST_SETTINGS).unwrap_or_else(|error| panic!("{error}"));
    let database = primary.create_database("lossy");
    let standby = primary.start_standby().unwrap_or_else(|error| panic!("{error}"));
    let store = open(&url_of_both(&primary, &standby, &database.name)).await;
    enqueue_and_attempt(&store, spec(), 200).await;
    store.notices(None, 0).await.unwrap();
    wait_for_replay(&primary, &standby).await;
    // The standby no longer follows. A server logs the next 32 numbers of a sequence, so more than those are lost.
    query_text(&standby, "postgres", "ALTER SYSTEM SET primary_conninfo = ''; SELECT pg_reload_conf()");
    let followers = "SELECT count(*) FROM pg_stat_replication";
    wait_until(TIMEOUT, "the standby is disconnected", async || {
        query_text(&primary, "postgres", followers) == "0"
    })
    .await;
    for _ in 0..60 {
        enqueue_and_attempt(&store, spec(), 200).await;
        store.notices(None, 0).await.unwrap();
    }
    let seen = store.notices(None, 0).await.unwrap().cursor;

    primary.stop(StopMode::Immediate).unwrap();
    standby.promote().unwrap();
    wait_until(3 * TIMEOUT, "the store finds the new primary", async || store.overview().await.is_ok()).await;
    assert_eq!(store.overview().await.unwrap().delivered, 1, "the failover lost commits");
    let mut later: Vec<EventId> = Vec::new();
    for _ in 0..5 {
        wait_until(TIMEOUT, "an enqueue succeeds", async || {
            let enqueued = store.enqueue(request(vec![spec()])).await;
            later.extend(
                enqueued.iter().flat_map(|response| &response.receipts).map(|it| it.event_id.clone()),
            );
            enqueued.is_ok()
        })
        .await;
        let mut leases = Vec::new();
        wait_until(TIMEOUT, "the event is granted", async || {
            leases = store.claim(&claim_by("worker-a")).await.map(|claim| claim.leases).unwrap_or_default();
            !leases.is_empty()
        })
        .await;
        wait_until(TIMEOUT, "a settle succeeds", async || {
            store.settle(&worker("worker-a"), &[settlement(&leases[0], 200)]).await.is_ok()
        })
        .await;
    }
    let page = store.notices(Some(seen), 100).await.unwrap();
    let announced: Vec<EventId> =
        page.notices.into_iter().map(|published| published.notice.event_id).collect();
    assert_eq!(announced, later);
}
