//! One seed, from boot to verdict.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::Store;
use posthaste_store_memory::MemoryStore;
use tokio::task::JoinSet;

use crate::check::{Checker, Counts, Violation};
use crate::fault::Tally;
use crate::sabotage::{Honest, Sabotage};
use crate::scenario::Scenario;
use crate::time::{WorldClock, sleep};
use crate::world::World;
use crate::{chaos, client, panics, worker};

/// What a run came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    pub violation: Option<Violation>,
    pub faults: Tally,
    pub simulated: Duration,
    /// Store operations that were checked.
    pub steps: u64,
    pub events: u64,
    pub requests: u64,
    pub delivered: u64,
    pub failed: u64,
    pub counts: Counts,
    /// A digest of every step in order: equal for equal runs.
    pub digest: u64,
}

/// Runs a scenario to its end, or to the first violation.
pub fn run(seed: u64, scenario: Scenario) -> Report {
    run_sabotaged(seed, scenario, Arc::new(Honest))
}

pub fn run_sabotaged(seed: u64, scenario: Scenario, sabotage: Arc<dyn Sabotage>) -> Report {
    panics::watch();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(simulate(seed, scenario, sabotage))
}

async fn simulate(seed: u64, scenario: Scenario, sabotage: Arc<dyn Sabotage>) -> Report {
    let clock = WorldClock::start();
    let memory = MemoryStore::new(Arc::new(clock), seed);
    let shared: Arc<dyn Store> = sabotage.store(memory.clone());
    let checker = Arc::new(Checker::new(clock, memory, shared, scenario.clone()));
    let world = Arc::new(World::new(seed, scenario, clock, Arc::clone(&checker)));

    let mut tasks = JoinSet::new();
    for number in 0..world.scenario.workers {
        tasks.spawn(worker::live(Arc::clone(&world), Arc::clone(&sabotage), number, seed));
    }
    tasks.spawn(client::operate(Arc::clone(&world), seed));
    tasks.spawn(chaos::reign(Arc::clone(&world), seed));
    tokio::select! {
        biased;
        () = checker.violated() => {}
        () = live_through(&world, seed) => {}
    }
    let simulated = clock.elapsed();
    tasks.abort_all();
    checker.report(seed, world.tally(), simulated)
}

/// The turmoil, then peace until every event has come to its end.
async fn live_through(world: &Arc<World>, seed: u64) {
    let patience = worker::patience(&world.scenario.settings);
    let mut producers = JoinSet::new();
    producers.spawn(client::produce(Arc::clone(world), seed));
    sleep(world.scenario.turmoil).await;
    world.calm_down();
    let peace_began = world.clock.timestamp();
    let deadline = world.clock.elapsed() + patience;
    loop {
        while producers.try_join_next().is_some() {}
        if producers.is_empty() && world.checker.all_is_settled() {
            break;
        }
        if world.clock.elapsed() > deadline {
            return world.checker.out_of_patience(patience);
        }
        sleep(Duration::from_secs(1)).await;
        world.checker.nothing_waits_too_long(peace_began, &world.workers());
    }
    // Followers hear of the last of it within a poll.
    sleep(world.scenario.settings.poll_interval * 2 + Duration::from_secs(1)).await;
    world.checker.in_the_end(&world.workers());
    if panics::happened() {
        world.checker.broken("panic", "something panicked that was not meant to".to_owned());
    }
}
