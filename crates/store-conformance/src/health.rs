//! The health check.

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
