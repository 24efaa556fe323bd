//! Stores that are right pass: the model itself, under other clocks, and with every choice that the port leaves open
//! made the other way.

mod contrary;
#[path = "../harness/mod.rs"]
mod harness;
mod shifted;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::Timestamp;
use posthaste_store::{Layer, Layered, Maintained, Retention, Store, StoreClock, StoreError};
use posthaste_store_comparison::Comparison;
use posthaste_store_conformance::Harness;
use posthaste_store_memory::{ManualClock, MemoryStore};

use contrary::Contrary;
use harness::MemoryHarness;
use shifted::ShiftedHarness;

#[test]
fn the_model_agrees_with_itself() {
    Comparison::of(3_000).run(async || MemoryHarness::new(|memory, _| Arc::new(memory)));
}

#[test]
fn what_the_port_leaves_open_is_left_open() {
    Comparison::of(2_000)
        .run(async || MemoryHarness::new(|memory, clock| Arc::new(Layered(Contrary { memory, clock }))));
}

#[test]
fn sequences_come_to_something() {
    let memory = async || MemoryHarness::new(|memory, _| Arc::new(memory));
    let tally = Comparison::of(1_000).check(memory).unwrap();
    println!("{tally}");
    for what in [
        "abandoned events",
        "cancels",
        "claims asked again",
        "events",
        "events forgotten",
        "leases brought again",
        "leases granted",
        "lost renewals",
        "notices",
        "pages",
        "refused cancels",
        "refused enqueues",
        "refused requeues",
        "renewals",
        "replayed enqueues",
        "requeues",
        "settled: applied",
        "settled: replayed",
        "settled: stale",
    ] {
        assert!(tally.of(what) >= 100, "{what}: {}", tally.of(what));
    }
    assert_eq!(Comparison::of(1_000).check(memory).unwrap(), tally, "the same sequences again");
}

/// A clock that moves whenever it is read, by more than a call to any store takes.
struct RestlessClock {
    moved: ManualClock,
    reads: AtomicU32,
}

impl StoreClock for RestlessClock {
    fn now(&self) -> Timestamp {
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        self.moved.now().after(Duration::from_millis(15) * reads)
    }
}

struct RestlessHarness {
    store: MemoryStore,
    clock: Arc<RestlessClock>,
}

impl RestlessHarness {
    fn new() -> Self {
        let moved = ManualClock::at(Timestamp::from_secs(1_600_000_000));
        let clock = Arc::new(RestlessClock { moved, reads: AtomicU32::new(0) });
        Self { store: MemoryStore::new(clock.clone(), 3), clock }
    }
}

#[async_trait]
impl Harness for RestlessHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(self.store.clone())
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.clock.moved.advance(by);
    }
}

#[test]
fn a_clock_that_runs_by_itself_makes_no_difference() {
    Comparison::of(1_000).run(async || RestlessHarness::new());
}

#[test]
fn moments_that_are_moved_back_instead_of_a_clock_forward_make_no_difference() {
    Comparison::of(1_000).run(async || ShiftedHarness::new());
}

#[test]
fn one_store_can_be_emptied_instead_of_started_anew() {
    let started = AtomicU32::new(0);
    Comparison::of(500).run_on_one(
        async || {
            started.fetch_add(1, Ordering::Relaxed);
            RestlessHarness::new()
        },
        async |harness| {
            harness.clock.reads.store(0, Ordering::Relaxed);
            harness.store.with_state(|state| {
                state.rows.clear();
                state.keys.clear();
                state.attempts.clear();
                state.destinations.clear();
                state.idempotency.clear();
                state.audit.clear();
                state.notices.clear();
            });
        },
    );
    assert_eq!(started.into_inner(), 1);
}

/// Attempts go only with their events.
struct Lingering(MemoryStore);

#[async_trait]
impl Layer for Lingering {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        let attempts = self.0.with_state(|state| state.attempts.clone());
        let maintained = self.0.maintain(retention).await;
        self.0.with_state(|state| state.attempts = attempts);
        maintained
    }
}

#[test]
fn attempts_linger_only_where_they_may() {
    let lingering = async || MemoryHarness::new(|memory, _| Arc::new(Layered(Lingering(memory))));
    Comparison::of(1_000).attempts_may_linger().run(lingering);
    let found = Comparison::of(1_000).check(lingering).unwrap_err().to_string();
    assert!(found.contains("Maintain") && found.contains("differs"), "{found}");
}
