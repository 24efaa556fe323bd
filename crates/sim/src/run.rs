//! Runs one simulation and returns its report.

use std::sync::Arc;
use std::time::Duration;

use posthaste_store::Store;
use posthaste_store_memory::MemoryStore;
use tokio::task::JoinSet;

use crate::check::{Checker, HandledCounts, Violation};
use crate::fault::FaultCounts;
use crate::planted_bug::{NoBug, PlantedBug};
use crate::scenario::Scenario;
use crate::tenant::{self, Tenants};
use crate::time::{WorldClock, sleep};
use crate::world::World;
use crate::{bulk_operator, chaos, client, panics, worker};

/// By then a worker has reported what it did, if no fault prevents it.
const REPORTED_WITHIN: Duration = Duration::from_secs(15);

/// The result of one simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub seed: u64,
    pub violation: Option<Violation>,
    pub faults: FaultCounts,
    /// Simulated time until the end, or until the violation.
    pub simulated: Duration,
    /// Number of store operations that were checked.
    pub steps: u64,
    pub events: u64,
    pub requests: u64,
    pub delivered: u64,
    pub failed: u64,
    pub counts: HandledCounts,
    /// Hash of all steps in order. Two runs of one seed have the same digest.
    pub digest: u64,
}

/// Runs a scenario until every event has ended, or until the first violation.
pub fn run(seed: u64, scenario: Scenario) -> Report {
    run_with_bug(seed, scenario, Arc::new(NoBug))
}

/// Runs a scenario as [`run`] does, with a bug planted in the store or in the engines.
pub fn run_with_bug(seed: u64, scenario: Scenario, bug: Arc<dyn PlantedBug>) -> Report {
    panics::install_hook();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(simulate(seed, scenario, bug))
}

async fn simulate(seed: u64, scenario: Scenario, bug: Arc<dyn PlantedBug>) -> Report {
    let clock = WorldClock::start();
    let memory = MemoryStore::new(Arc::new(clock), seed);
    let shared_store: Arc<dyn Store> = bug.store(memory.clone());
    let checker = Arc::new(Checker::new(clock, memory, shared_store, scenario.clone()));
    let world = Arc::new(World::new(seed, scenario, clock, Arc::clone(&checker)));

    let mut tasks = JoinSet::new();
    for number in 0..world.scenario.workers {
        tasks.spawn(worker::run_worker(Arc::clone(&world), Arc::clone(&bug), number, seed));
    }
    tasks.spawn(client::run_operator(Arc::clone(&world), seed));
    tasks.spawn(bulk_operator::run(Arc::clone(&world), seed));
    let tenants = tenant::create_tenants(&world, seed).await;
    tasks.spawn(tenant::administer(Arc::clone(&tenants), seed));
    tasks.spawn(chaos::run(Arc::clone(&world), seed));
    tokio::select! {
        biased;
        () = checker.violated() => {}
        () = run_to_end(&world, &tenants, seed) => {}
    }
    let simulated = clock.elapsed();
    tasks.abort_all();
    checker.report(seed, world.fault_counts(), simulated)
}

/// Lets the fault phase pass, then waits without faults until every event has ended.
async fn run_to_end(world: &Arc<World>, tenants: &Arc<Tenants>, seed: u64) {
    let recovery_time_max = worker::recovery_time_max(&world.scenario);
    let mut producers = JoinSet::new();
    producers.spawn(client::produce(Arc::clone(world), seed));
    producers.spawn(tenant::publish_all(Arc::clone(tenants), seed));
    sleep(world.scenario.fault_duration).await;
    world.stop_faults();
    let faults_ended_at = world.clock.timestamp();
    let mut deadline = world.clock.elapsed() + recovery_time_max;
    loop {
        while producers.try_join_next().is_some() {}
        if !producers.is_empty() {
            // Bursts are random, so the last events may be enqueued after the faults have ended.
            deadline = world.clock.elapsed() + recovery_time_max;
        } else if world.checker.all_events_ended() {
            // Subscribers receive the last notices within one poll interval. An operation may reopen an event meanwhile.
            sleep(world.scenario.settings.poll_interval * 2 + Duration::from_secs(1)).await;
            if world.checker.all_events_ended() {
                break;
            }
        }
        if world.clock.elapsed() > deadline {
            return world.checker.report_unfinished(recovery_time_max);
        }
        sleep(Duration::from_secs(1)).await;
        world.checker.check_waiting(faults_ended_at, &world.running_processes());
        world.checker.check_expiry(faults_ended_at, &world.running_processes());
    }
    world.checker.check_end_state(&world.running_processes());
    // Workers report every ten seconds.
    sleep(REPORTED_WITHIN).await;
    world.checker.check_all_reported(&world.running_processes());
    if panics::occurred() {
        world
            .checker
            .report_violation("panic", "a panic occurred that the simulation did not inject".to_owned());
    }
}
