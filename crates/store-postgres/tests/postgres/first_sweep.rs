//! The first claim of a process beside more destinations than it waits for.

use posthaste_store::Store as _;
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::plans::explain_server::{ExplainServer, assert_uses_indexes, scans_of};
use crate::support::PostgresHarness;

/// Adds more destinations than the first claim of a process reads, none of which has an event.
pub(crate) const ADD_DESTINATIONS: &str =
    "INSERT INTO app.webhook_destinations (url) SELECT 'https://idle.example/' || n FROM generate_series(1, 30000) n;
     ANALYZE app.webhook_destinations";

#[tokio::test]
async fn the_first_claim_finds_the_oldest_events_and_the_sweep_wakes_the_worker_for_the_others() {
    let harness = PostgresHarness::start().await;
    let observer = client(&harness.database.url).await;
    observer.batch_execute(ADD_DESTINATIONS).await.unwrap();
    let producer = harness.store();
    // The crowd has more events than the first claim reads, and all are older than the last one's.
    for _ in 0..6 {
        enqueue_all(&*producer, (0..1_000).map(|_| spec_to("https://crowd.example/")).collect()).await;
    }
    let last = enqueue(&*producer, spec_to("https://last.example/")).await;

    let worker = open(&harness.database.url).await;
    let mut wakeups = worker.wakeups();
    let first = claim(&worker).await;
    assert_eq!(first.len(), 1_000, "the first claim finds the oldest events");
    let found = async {
        let mut leases = claim(&worker).await;
        while !event_ids(&leases).contains(&last.as_str()) {
            if leases.is_empty() {
                wakeups.wait().await;
            }
            leases = claim(&worker).await;
        }
    };
    expect_soon("the sweep finds the event behind the crowd", found).await;
}

#[tokio::test]
async fn the_first_claim_seeks_the_oldest_events_in_indexes() {
    let explained = ExplainServer::start();
    let producer = open(&explained.database.url).await;
    client(&explained.database.url).await.batch_execute(ADD_DESTINATIONS).await.unwrap();
    enqueue_all(&producer, (0..1_000).map(|_| spec()).collect()).await;
    let plans = explained
        .plans_during(async {
            assert_eq!(claim(&open(&explained.database.url).await).await.len(), 1_000);
        })
        .await;
    let oldest = scans_of(&plans, &["AS is_first", "GROUP BY r.destination_id"]);
    assert_uses_indexes(&oldest, &["webhook_queue_id", "webhook_queue_position"]);
}
