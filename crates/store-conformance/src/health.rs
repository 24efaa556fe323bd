//! The health check.

use posthaste_store::Overview;

use crate::Harness;
use crate::fixture::*;

pub async fn health_reports_the_clock_and_a_current_schema(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let created_at = view(&store, &event_id).await.created_at;
    let health = store.health().await.expect("the store is up");
    assert!(health.is_current(), "{health:?}");
    // The store has one clock: its time is not before a timestamp that it has stored.
    assert!(health.now >= created_at, "{health:?} is not before {created_at:?}");
}

pub async fn check_of_writes_changes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let before = store.overview().await.expect("the store is up");
    for _ in 0..3 {
        store.check_writes().await.expect("the store accepts writes");
    }
    let after = store.overview().await.expect("the store is up");
    let counts =
        |overview: &Overview| (overview.pending, overview.pending_ready, overview.delivered, overview.failed);
    assert_eq!(counts(&after), counts(&before));
    let end = store.notices(None, 10).await.expect("the store is up").cursor;
    assert_eq!(store.notices(Some(end), 10).await.expect("the store is up").notices, []);
    let leases = claim(&store, &claim_by("worker-a")).await.leases;
    assert_eq!(leases.iter().map(|lease| &lease.event_id).collect::<Vec<_>>(), [&event_id]);
    apply(&store, &leases[0], status(200)).await;
}
