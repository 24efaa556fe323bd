//! The state that all parts of a simulation share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::DestinationUrl;
use posthaste_store::Store;

use crate::FaultInjection;
use crate::check::Checker;
use crate::fault::{Fault, FaultCounts};
use crate::process::Process;
use crate::random::SeededRandom;
use crate::receivers::ReceiverBehavior;
use crate::scenario::Scenario;
use crate::time::WorldClock;

/// The shared state of a simulation: scenario, clock, checker, and the faults in effect.
pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) clock: WorldClock,
    pub(crate) checker: Arc<Checker>,
    /// Decides the faults of single calls and requests.
    pub(crate) random: SeededRandom,
    state: Mutex<WorldState>,
}

/// Which writes the store refuses with an error that repeating the call does not end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteRefusal {
    /// Settles only.
    Settles,
    /// Settles, claims and renewals.
    AllOfWorkers,
}

struct WorldState {
    faults_are_over: bool,
    outage_until: Duration,
    refusal: Option<(WriteRefusal, Duration)>,
    /// By destination number.
    behaviors: Vec<ReceiverBehavior>,
    /// The current process of each worker, by worker number.
    processes: Vec<Option<Arc<Process>>>,
    /// The store that the current process of each worker offers to producers, by worker number.
    direct_stores: Vec<Option<Arc<dyn Store>>>,
    fault_counts: FaultCounts,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario, clock: WorldClock, checker: Arc<Checker>) -> Self {
        let state = WorldState {
            faults_are_over: scenario.fault_injection == FaultInjection::Off,
            outage_until: Duration::ZERO,
            refusal: None,
            behaviors: vec![ReceiverBehavior::Healthy; scenario.destinations],
            processes: vec![None; scenario.workers],
            direct_stores: vec![None; scenario.workers],
            fault_counts: FaultCounts::default(),
        };
        Self { scenario, clock, checker, random: SeededRandom::new(seed, 2), state: Mutex::new(state) }
    }

    pub(crate) fn faults_are_over(&self) -> bool {
        self.state().faults_are_over
    }

    /// Injects no more faults and ends those in effect.
    pub(crate) fn stop_faults(&self) {
        let mut state = self.state();
        state.faults_are_over = true;
        state.outage_until = Duration::ZERO;
        state.refusal = None;
        state.behaviors.fill(ReceiverBehavior::Healthy);
        for process in state.processes.iter().flatten() {
            process.set_drift(1_000, self.scenario.settings.lease.duration());
            let mut faults = process.faults();
            faults.clock_step_s = 0;
            faults.slow_until = Duration::ZERO;
            faults.slow_settle_until = Duration::ZERO;
            faults.heartbeat_lost_until = Duration::ZERO;
        }
    }

    /// Returns whether a fault with this probability, in per mille, occurs now.
    pub(crate) fn fault_occurs(&self, per_mille: u64) -> bool {
        !self.faults_are_over() && self.random.chance(per_mille)
    }

    pub(crate) fn count(&self, fault: Fault) {
        self.state().fault_counts.count(fault);
    }

    pub(crate) fn fault_counts(&self) -> FaultCounts {
        self.state().fault_counts.clone()
    }

    pub(crate) fn is_store_down(&self) -> bool {
        self.state().outage_until > self.clock.elapsed()
    }

    pub(crate) fn start_outage(&self, until: Duration) {
        self.state().outage_until = until;
    }

    /// Moves the store's clock back, as the correction of a wrong clock does.
    pub(crate) fn step_clock_back(&self, by: Duration) {
        self.count(Fault::StoreClockStep);
        self.clock.step_back(by);
        self.checker.record_clock_step(by);
    }

    /// Returns the writes that the store refuses now.
    pub(crate) fn refused_writes(&self) -> Option<WriteRefusal> {
        let (refusal, until) = self.state().refusal?;
        (self.clock.elapsed() < until).then_some(refusal)
    }

    pub(crate) fn refuse_writes(&self, refusal: WriteRefusal, until: Duration) {
        self.state().refusal = Some((refusal, until));
    }

    pub(crate) fn behavior_of(&self, destination: &DestinationUrl) -> ReceiverBehavior {
        let number = destination.as_str().rsplit('/').next().and_then(|number| number.parse::<usize>().ok());
        let number = number.expect("destination URLs end in their number");
        self.state().behaviors[number]
    }

    pub(crate) fn set_behavior(&self, destination: usize, behavior: ReceiverBehavior) {
        self.state().behaviors[destination] = behavior;
    }

    pub(crate) fn set_process(&self, worker: usize, process: Arc<Process>) {
        self.state().processes[worker] = Some(process);
    }

    pub(crate) fn set_direct_store(&self, worker: usize, store: Arc<dyn Store>) {
        self.state().direct_stores[worker] = Some(store);
    }

    /// Returns the store that a random worker offers to producers. Its process may have crashed: then it never responds.
    pub(crate) fn random_direct_store(&self, random: &SeededRandom) -> Option<Arc<dyn Store>> {
        let worker = random.index(self.scenario.workers);
        self.state().direct_stores[worker].clone()
    }

    /// Returns the worker processes that have not crashed.
    pub(crate) fn running_processes(&self) -> Vec<Arc<Process>> {
        let state = self.state();
        state.processes.iter().flatten().filter(|process| !process.is_crashed()).cloned().collect()
    }

    pub(crate) fn random_process(&self, random: &SeededRandom) -> Option<Arc<Process>> {
        let running = self.running_processes();
        if running.is_empty() { None } else { Some(random.pick(&running)) }
    }

    /// Returns the URL of a receiver by its number.
    pub(crate) fn destination(&self, number: usize) -> String {
        format!("https://{}/{number}", self.host_of(number))
    }

    /// Returns a URL of the same receiver that only one event is sent to.
    pub(crate) fn destination_of_one_event(&self, number: usize, event: usize) -> String {
        format!("https://{}/only-{event}/{number}", self.host_of(number))
    }

    /// Returns a URL of the same receiver that only one endpoint has.
    pub(crate) fn destination_of_endpoint(&self, number: usize, endpoint: usize) -> String {
        format!("https://{}/endpoint-{endpoint}/{number}", self.host_of(number))
    }

    fn host_of(&self, number: usize) -> String {
        let host = if self.scenario.hosts_are_separate { number } else { 0 };
        format!("receiver-{host}.test")
    }

    fn state(&self) -> MutexGuard<'_, WorldState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
