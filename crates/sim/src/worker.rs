//! A worker across restarts: boots a process, runs it until it crashes or is drained, and boots the next.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{RetryPolicy, WorkerId};
use posthaste_engine::{Engine, Ports, Publisher, Runtimes, Settings, SharedProfiles};

use crate::fault::Fault;
use crate::planted_bug::PlantedBug;
use crate::process::{Process, ProcessClock};
use crate::random::SeededRandom;
use crate::registry_layer::layer_registry;
use crate::scenario::Scenario;
use crate::time::sleep;
use crate::worker_ports::{FaultySender, FaultyStore};
use crate::world::World;

/// Runs worker number `number` until the simulation is dropped.
pub(crate) async fn run_worker(world: Arc<World>, bug: Arc<dyn PlantedBug>, number: usize, seed: u64) {
    let random = Arc::new(SeededRandom::new(seed, 100 + number as u64));
    let mut boot = 0;
    loop {
        let worker_id = WorkerId::with_boot_id(&format!("worker-{number}"), boot).expect("visible ASCII");
        let process = Arc::new(Process::boot(worker_id, world.clock));
        world.set_process(number, Arc::clone(&process));
        run_process(&world, &*bug, number, &process, &random).await;
        // Stop the remaining tasks of the process. Leases that it still holds expire.
        process.crash();
        sleep(random.millis(100..20_000)).await;
        if random.chance(300) {
            world.count(Fault::RestartSameId);
        } else {
            boot += 1;
        }
    }
}

/// Runs one process of a worker until it crashes or has drained.
async fn run_process(
    world: &Arc<World>,
    bug: &dyn PlantedBug,
    number: usize,
    process: &Arc<Process>,
    random: &Arc<SeededRandom>,
) {
    let faulty = FaultyStore {
        inner: world.checker.store_of(Arc::clone(process)),
        world: Arc::clone(world),
        process: Arc::clone(process),
        can_crash: true,
    };
    let (in_flight, profiles) = (Arc::default(), SharedProfiles::default());
    let sender = FaultySender {
        world: Arc::clone(world),
        process: Arc::clone(process),
        in_flight,
        profiles: profiles.clone(),
    };
    let (store, sender) = bug.engine(layer_registry(faulty), Arc::new(sender));
    let clock = Arc::new(ProcessClock(Arc::clone(process)));
    let ports = Ports {
        store,
        sender: bug.sender(sender, Arc::clone(&clock) as _),
        clock,
        random: Arc::clone(random) as _,
        observer: Arc::new(()),
        reloaded_keys: None,
        profiles,
    };
    let settings = Settings {
        worker_id: process.worker_id.clone(),
        lease_owner: process.worker_id.clone(),
        policy: RetryPolicy::new(bug.policy(&world.scenario.retry)).expect("a valid policy"),
        ..world.scenario.settings.clone()
    };
    let engine = Engine::start(bug.settings(settings), ports, &Runtimes::current())
        .expect("the scenario's settings are valid");
    world.set_direct_store(number, engine.direct_store());
    let publisher = engine.publisher().clone();
    tokio::select! {
        biased;
        () = process.crashed() => return,
        () = receive_notices(world, process, &publisher) => {}
        () = redeploy(world, random) => {}
    }
    world.count(Fault::GracefulRestart);
    process.start_draining();
    tokio::select! {
        biased;
        () = process.crashed() => {}
        drained = engine.drain(random.millis(500..10_000)) => world.checker.check_drained(process, drained),
    }
}

/// Resolves when the worker is to be redeployed. Never resolves after the fault phase.
async fn redeploy(world: &World, random: &SeededRandom) {
    sleep(random.millis(60_000..1_200_000)).await;
    if world.faults_are_over() {
        std::future::pending::<()>().await;
    }
}

/// Subscribes to notices as a client of this process would, and checks each notice. Never returns.
async fn receive_notices(world: &World, process: &Process, publisher: &Publisher) {
    loop {
        let Ok(mut notices) = publisher.subscribe().await else {
            sleep(Duration::from_secs(1)).await;
            continue;
        };
        process.record_notice(Some(notices.cursor()));
        loop {
            let previous = notices.cursor();
            let Ok(notice) = notices.next().await else { break };
            world.checker.check_notice(previous, &notice);
            process.record_notice(Some(notice.cursor));
        }
    }
}

/// Returns how long after the last fault every event must have ended: the longest retry delay, then the time for
/// leases, circuits, polls, and the events of messages that wait for each other.
pub(crate) fn recovery_time_max(scenario: &Scenario) -> Duration {
    let settings = &scenario.settings;
    // An endpoint in FIFO order, or with a throttle, gets one event after the other.
    let line_time = (settings.poll_interval + Duration::from_secs(3)) * scenario.registry.messages_max();
    // A poison event crashes workers until it is abandoned.
    let poison_time = (settings.lease.duration() + Duration::from_secs(30)) * settings.abandon_after;
    settings.policy.max_backoff()
        + poison_time
        + line_time
        + settings.lease.duration() * 2
        + settings.breaker.cool_down() * 2
        + Duration::from_secs(120)
}
