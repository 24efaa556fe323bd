//! Signs of life.

use crate::Harness;
use crate::fixture::*;

pub async fn a_store_that_works_tells_its_clock_and_that_its_schema_is_current(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let created_at = view(&store, &event_id).await.created_at;
    let vitals = store.vitals().await.expect("the store answers");
    assert!(vitals.is_current(), "{vitals:?}");
    // One clock for all: this moment is not before one that it has stored.
    assert!(vitals.now >= created_at, "{vitals:?} after {created_at:?}");
}
