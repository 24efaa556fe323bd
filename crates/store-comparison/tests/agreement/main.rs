//! Correct stores pass the comparison: the model itself, the model under other clocks, and a store that decides every
//! open choice of the port differently from the model.

mod backdated;
#[path = "../harness/mod.rs"]
mod harness;
mod opposite_choices;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::Timestamp;
use posthaste_store::{
    LayeredStore, MaintenanceReport, Retention, Store, StoreClock, StoreError, StoreLayer,
};
use posthaste_store_comparison::Comparison;
use posthaste_store_conformance::Harness;
use posthaste_store_memory::{ActivityTables, BulkTable, ManualClock, MemoryStore, Registry};

use backdated::BackdatedHarness;
use harness::MemoryHarness;
use opposite_choices::OppositeChoices;

#[test]
fn the_model_agrees_with_itself() {
    Comparison::new(3_000).run(async || MemoryHarness::new(|memory, _| Arc::new(memory)));
}

#[test]
fn a_store_may_decide_the_open_choices_of_the_port_differently() {
    Comparison::new(2_000).run(async || {
        MemoryHarness::new(|memory, clock| Arc::new(LayeredStore(OppositeChoices { memory, clock })))
    });
}

#[test]
fn sequences_cover_every_kind_of_result() {
    let memory = async || MemoryHarness::new(|memory, _| Arc::new(memory));
    let tally = Comparison::new(1_800).check(memory).unwrap();
    println!("{tally}");
    for what in [
        "abandoned events",
        "cancels",
        "dead letters counted for bulk operations",
        "events",
        "events of bulk operations",
        "events removed by retention",
        "events stored leased",
        "expired events",
        "leases granted",
        "leases returned again",
        "lost renewals",
        "notices",
        "pages",
        "refused cancels",
        "refused enqueues",
        "refused requeues",
        "reports of activity",
        "repeated reports of activity",
        "renewals",
        "repeated claims",
        "replayed enqueues",
        "requeues",
        "settled: applied",
        "settled: replayed",
        "settled: stale",
        "changed endpoints",
        "created applications",
        "created endpoints",
        "fan-out events",
        "lists of the registry",
        "publications",
        "put event types",
        "refused registry calls",
        "started bulk operations",
        "started operations",
        "steps of bulk operations",
        "steps of operations",
    ] {
        assert!(tally.count(what) >= 100, "{what}: {}", tally.count(what));
    }
    // Each of these takes several calls.
    for what in [
        "changed applications",
        "changed headers",
        "deleted applications",
        "deleted endpoints",
        "events of operations",
        "expunged messages",
        "listed attempts",
        "lists of attempts",
        "resends",
        "rotations",
        "stopped bulk operations",
    ] {
        assert!(tally.count(what) >= 10, "{what}: {}", tally.count(what));
    }
    assert_eq!(
        Comparison::new(1_800).check(memory).unwrap(),
        tally,
        "the same seed generates the same sequences"
    );
}

/// A clock that advances at every read, by more than any call to a store takes.
struct TickingClock {
    base: ManualClock,
    reads: AtomicU32,
}

impl StoreClock for TickingClock {
    fn now(&self) -> Timestamp {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        self.base.now().after(Duration::from_millis(5) * reads)
    }
}

struct TickingHarness {
    store: MemoryStore,
    clock: Arc<TickingClock>,
}

impl TickingHarness {
    fn new() -> Self {
        let base = ManualClock::at(Timestamp::from_secs(1_600_000_000));
        let clock = Arc::new(TickingClock { base, reads: AtomicU32::new(0) });
        Self { store: MemoryStore::new(clock.clone(), 3), clock }
    }
}

#[async_trait]
impl Harness for TickingHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.clock.base.advance(by);
    }
}

#[test]
fn a_store_whose_clock_ticks_agrees_with_the_model() {
    Comparison::new(1_000).run(async || TickingHarness::new());
}

#[test]
fn a_store_that_backdates_timestamps_instead_of_advancing_agrees_with_the_model() {
    Comparison::new(1_000).with_direct_events_alone().run(async || BackdatedHarness::new());
}

#[test]
fn sequences_can_share_one_store_that_is_emptied_before_each() {
    let started = AtomicU32::new(0);
    Comparison::new(500).run_on_shared_store(
        async || {
            started.fetch_add(1, Ordering::Relaxed);
            TickingHarness::new()
        },
        async |harness| {
            harness.clock.reads.store(0, Ordering::Relaxed);
            harness.store.with_state(|state| {
                state.rows.clear();
                state.keys.clear();
                state.attempts.clear();
                state.destinations.clear();
                state.destination_audit.clear();
                state.idempotency.clear();
                state.audit.clear();
                state.discarded.clear();
                state.notices.clear();
                state.registry = Registry::default();
                state.bulk = BulkTable::default();
                state.activity = ActivityTables::default();
            });
        },
    );
    assert_eq!(started.into_inner(), 1);
}

/// A store that removes attempts only together with their events.
struct LateAttemptRemoval(MemoryStore);

#[async_trait]
impl StoreLayer for LateAttemptRemoval {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let attempts = self.0.with_state(|state| state.attempts.clone());
        let maintained = self.0.maintain(retention).await;
        self.0.with_state(|state| state.attempts = attempts);
        maintained
    }
}

#[test]
fn late_removal_of_attempts_passes_only_if_it_is_allowed() {
    let late_removal =
        async || MemoryHarness::new(|memory, _| Arc::new(LayeredStore(LateAttemptRemoval(memory))));
    Comparison::new(1_000).allow_late_attempt_removal().run(late_removal);
    let found = Comparison::new(1_000).check(late_removal).unwrap_err().to_string();
    assert!(found.contains("Maintain") && found.contains("differs"), "{found}");
}
