//! The conformance suite on the memory store, and proof that the suite detects broken stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{ClaimId, Timestamp};
use posthaste_store::{ClaimRequest, ClaimResponse, LayeredStore, Store, StoreError, StoreLayer};
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

    async fn step_back(&self, by: Duration) {
        self.clock.step_back(by);
    }
}

conformance_suite!(MemoryHarness::new());

/// A broken store: time never passes, and each handle has its own data.
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
#[should_panic(expected = "exactly one request is the first")]
async fn idempotency_key_not_shared_between_handles_fails_the_suite() {
    let broken = BrokenHarness(MemoryHarness::new());
    cases::idempotency::concurrent_first_uses_of_one_key_make_one_event(&broken).await;
}

#[tokio::test]
#[should_panic(expected = "every handle returns the leases of the claim")]
async fn claim_not_shared_between_handles_fails_the_suite() {
    let broken = BrokenHarness(MemoryHarness::new());
    cases::repeated_claim::repeated_claim_through_another_handle_returns_the_same_leases(&broken).await;
}

/// A broken store that treats every claim as new.
struct ForgetfulStore {
    store: MemoryStore,
    claims: AtomicU64,
}

#[async_trait]
impl StoreLayer for ForgetfulStore {
    fn inner(&self) -> &dyn Store {
        &self.store
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let claims = self.claims.fetch_add(1, Ordering::Relaxed);
        let id = ClaimId::random(u128::from(claims).to_be_bytes());
        self.store.claim(&ClaimRequest { id, ..request.clone() }).await
    }
}

struct ForgetfulHarness {
    store: Arc<dyn Store>,
    memory: MemoryHarness,
}

impl ForgetfulHarness {
    fn new() -> Self {
        let memory = MemoryHarness::new();
        let forgetful = ForgetfulStore { store: memory.store.clone(), claims: AtomicU64::new(0) };
        Self { store: Arc::new(LayeredStore(forgetful)), memory }
    }
}

#[async_trait]
impl Harness for ForgetfulHarness {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.memory.advance(by).await;
    }
}

#[tokio::test]
#[should_panic(expected = "a repeated claim returns the same leases")]
async fn store_that_treats_every_claim_as_new_fails_the_suite() {
    cases::repeated_claim::repeated_claim_returns_the_same_leases(&ForgetfulHarness::new()).await;
}
