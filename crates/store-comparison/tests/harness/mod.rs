//! Harness for memory stores that are compared with the model.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::Timestamp;
use posthaste_store::Store;
use posthaste_store_conformance::Harness;
use posthaste_store_memory::{ManualClock, MemoryStore};

/// A memory store, possibly wrapped in a layer.
pub(crate) struct MemoryHarness {
    store: Arc<dyn Store>,
    clock: Arc<ManualClock>,
}

impl MemoryHarness {
    pub(crate) fn new(make: impl Fn(MemoryStore, Arc<ManualClock>) -> Arc<dyn Store>) -> Self {
        // The time and the random seed differ from the model's, so that ids and timestamps differ too.
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_800_000_000)));
        let store = make(MemoryStore::new(clock.clone(), 7), clock.clone());
        Self { store, clock }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}
