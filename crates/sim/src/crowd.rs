//! The simulation of a crowd: one engine, a few receivers that answer promptly, and many that hang, crawl or fail.
//!
//! It checks P15 in simulated time. An event for a prompt receiver is sent as if the crowd were not there; every
//! destination gets its turn; no destination and no host has more requests in flight than its answers allow; and a
//! receiver that returns is ramped up. The rest of the system works: the other simulation injects the faults.

mod observer;
mod receivers;
mod scenario;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{NewEvent, NewEventSpec};
use posthaste_engine::{Engine, Ports, Runtimes, SharedProfiles};
use posthaste_store::{EnqueueRequest, LayeredStore, Store};
use posthaste_store_memory::MemoryStore;

use crate::check::Violation;
use crate::planted_bug::PlantedBug;
use crate::random::SeededRandom;
use crate::time::{WorldClock, sleep};

use observer::CrowdObserver;
use receivers::{CrowdSender, DelayedStore, TrueClock};
pub use scenario::{Crowd, CrowdBehavior, CrowdScenario};

/// Time in which the prompt receivers answer before the crowd arrives.
const WARM_UP: Duration = Duration::from_secs(5);
/// Interval between two events for one prompt receiver.
const PROMPT_INTERVAL: Duration = Duration::from_secs(1);
/// Events that are enqueued by one call.
const ENQUEUE_BATCH: usize = 500;

/// The result of one crowd simulation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrowdReport {
    pub violation: Option<Violation>,
    /// Longest time from the enqueue of an event for a prompt receiver to its request.
    pub prompt_lag_max: Duration,
    /// Most requests that were in flight at once.
    pub in_flight_max: usize,
    pub requests: u64,
}

/// Runs one crowd simulation, with a bug planted in the engine or in none.
pub fn run_crowd(seed: u64, scenario: &CrowdScenario, bug: &dyn PlantedBug) -> CrowdReport {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing from the system");
    runtime.block_on(simulate(seed, scenario, bug))
}

async fn simulate(seed: u64, scenario: &CrowdScenario, bug: &dyn PlantedBug) -> CrowdReport {
    let clock = WorldClock::start();
    let memory = MemoryStore::new(Arc::new(clock), seed);
    let observer = Arc::new(CrowdObserver::new(clock, scenario.clone()));
    let random = Arc::new(SeededRandom::new(seed, 1));
    let store = LayeredStore(DelayedStore { inner: bug.store(memory.clone()), random: Arc::clone(&random) });
    let sender = CrowdSender { observer: Arc::clone(&observer), random: Arc::clone(&random) };
    let (store, sender) = bug.engine(Arc::new(store), Arc::new(sender));
    let ports = Ports {
        store,
        sender,
        clock: Arc::new(TrueClock(clock)),
        random,
        observer: Arc::new(()),
        reloaded_keys: None,
        profiles: SharedProfiles::default(),
    };
    let _engine = Engine::start(bug.settings(scenario.settings.clone()), ports, &Runtimes::current())
        .expect("the scenario's settings are valid");
    tokio::select! {
        biased;
        () = observer.violated() => {}
        () = run_phases(scenario, &memory, &observer) => {}
    }
    observer.report()
}

/// Lets the crowd arrive, hang and recover, while the prompt receivers get events all the time.
async fn run_phases(scenario: &CrowdScenario, memory: &MemoryStore, observer: &CrowdObserver) {
    send_prompt_events(scenario, memory, observer, WARM_UP).await;
    if scenario.crowd.answers_first {
        enqueue(memory, observer, &scenario.crowd_urls()).await;
        send_prompt_events(scenario, memory, observer, WARM_UP).await;
    }
    observer.begin_crowd();
    enqueue(memory, observer, &scenario.crowd_urls()).await;
    send_prompt_events(scenario, memory, observer, scenario.turn_max()).await;
    observer.check_turns();
    observer.end_crowd();
    send_prompt_events(scenario, memory, observer, scenario.recovery_max()).await;
    observer.check_recovered();
}

/// Enqueues an event for each prompt receiver at every interval, until the time is over.
async fn send_prompt_events(
    scenario: &CrowdScenario,
    memory: &MemoryStore,
    observer: &CrowdObserver,
    duration: Duration,
) {
    let urls = scenario.prompt_urls();
    let mut rest = duration;
    while !rest.is_zero() {
        enqueue(memory, observer, &urls).await;
        sleep(PROMPT_INTERVAL).await;
        observer.check_lag();
        rest = rest.saturating_sub(PROMPT_INTERVAL);
    }
}

async fn enqueue(memory: &MemoryStore, observer: &CrowdObserver, urls: &[String]) {
    for batch in urls.chunks(ENQUEUE_BATCH) {
        let events = batch.iter().map(|url| event(url)).collect();
        let stored =
            memory.enqueue(EnqueueRequest::new(events)).await.expect("the memory store is available");
        for (receipt, url) in stored.receipts.iter().zip(batch) {
            observer.record_enqueued(&receipt.event_id, url);
        }
    }
}

fn event(url: &str) -> NewEvent {
    let spec = NewEventSpec {
        destination_url: url.to_owned(),
        event_type: "simulated".into(),
        payload: Bytes::from_static(b"{}"),
        ..NewEventSpec::default()
    };
    NewEvent::accept(spec, 1_000, 5).expect("a valid event")
}
