//! The memory store against the list of cases that every store must pass.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::Timestamp;
use posthaste_store::Store;
use posthaste_store_conformance::{Harness, cases, conformance_suite};
use posthaste_store_memory::{ManualClock, MemoryStore};

struct MemoryHarness {
    store: MemoryStore,
    clock: Arc<ManualClock>,
}

impl MemoryHarness {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_700_000_000)));
        Self { store: MemoryStore::new(clock.clone(), 1), clock }
    }
}

#[async_trait]
impl Harness for MemoryHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

conformance_suite!(MemoryHarness::new());

/// What a broken store looks like: time never passes, and each handle sees its own data.
struct BrokenHarness(MemoryHarness);

#[async_trait]
impl Harness for BrokenHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.0.store()
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        MemoryHarness::new().store()
    }

    async fn advance(&self, _: Duration) {}
}

#[tokio::test]
#[should_panic(expected = "the lease has expired")]
async fn leases_that_never_expire_fail_the_suite() {
    let broken = BrokenHarness(MemoryHarness::new());
    cases::fence::a_settlement_after_a_takeover_is_stale(&broken).await;
}

#[tokio::test]
#[should_panic(expected = "one of them was first")]
async fn a_key_that_another_handle_does_not_know_fails_the_suite() {
    let broken = BrokenHarness(MemoryHarness::new());
    cases::idempotency::concurrent_first_uses_of_one_key_make_one_event(&broken).await;
}
