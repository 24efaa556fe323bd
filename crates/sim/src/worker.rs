//! A worker across its lives: boots, runs until it crashes or is drained, and boots again.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::WorkerId;
use posthaste_engine::{Engine, Ports, Publisher, Runtimes, Settings};
use posthaste_store::Layered;

use crate::dice::Dice;
use crate::fault::Fault;
use crate::incarnation::{Incarnation, IncarnationClock};
use crate::sabotage::Sabotage;
use crate::time::sleep;
use crate::worker_ports::{FaultySender, FaultyStore};
use crate::world::World;

/// Runs worker number `number` until the simulation is dropped.
pub(crate) async fn live(world: Arc<World>, sabotage: Arc<dyn Sabotage>, number: usize, seed: u64) {
    let dice = Arc::new(Dice::new(seed, 100 + number as u64));
    let mut boot = 0;
    loop {
        let worker_id = WorkerId::booted(&format!("worker-{number}"), boot).expect("visible ASCII");
        let process = Arc::new(Incarnation::boot(worker_id, world.clock));
        world.booted(number, Arc::clone(&process));
        one_life(&world, &*sabotage, &process, &dice).await;
        // Whatever it still held is up to the leases.
        process.crash();
        sleep(dice.millis(100..20_000)).await;
        if dice.chance(300) {
            world.count(Fault::RestartSameId);
        } else {
            boot += 1;
        }
    }
}

async fn one_life(world: &Arc<World>, sabotage: &dyn Sabotage, process: &Arc<Incarnation>, dice: &Arc<Dice>) {
    let faulty = FaultyStore {
        inner: world.checker.store_of(Arc::clone(process)),
        world: Arc::clone(world),
        process: Arc::clone(process),
        mortal: true,
    };
    let occupancy = Arc::default();
    let sender = FaultySender { world: Arc::clone(world), process: Arc::clone(process), occupancy };
    let (store, sender) = sabotage.engine(Arc::new(Layered(faulty)), Arc::new(sender));
    let ports = Ports {
        store,
        sender,
        clock: Arc::new(IncarnationClock(Arc::clone(process))),
        chance: Arc::clone(dice) as _,
        observer: Arc::new(()),
    };
    let settings = Settings {
        worker_id: process.worker_id.clone(),
        owner: process.worker_id.clone(),
        ..world.scenario.settings.clone()
    };
    let engine =
        Engine::start(settings, ports, &Runtimes::current()).expect("the scenario's settings are valid");
    let publisher = engine.publisher().clone();
    tokio::select! {
        biased;
        () = process.until_crash() => return,
        () = follow(world, process, &publisher) => {}
        () = end_of_shift(world, dice) => {}
    }
    world.count(Fault::GracefulRestart);
    process.drains();
    tokio::select! {
        biased;
        () = process.until_crash() => {}
        drained = engine.drain(dice.millis(500..10_000)) => world.checker.drained(process, drained),
    }
}

/// Workers are redeployed now and then while the turmoil lasts.
async fn end_of_shift(world: &World, dice: &Dice) {
    sleep(dice.millis(60_000..1_200_000)).await;
    if world.is_calm() {
        std::future::pending::<()>().await;
    }
}

/// Follows the notices as a client of this process would, for as long as it lives.
async fn follow(world: &World, process: &Incarnation, publisher: &Publisher) {
    loop {
        let Ok(mut notices) = publisher.subscribe().await else {
            sleep(Duration::from_secs(1)).await;
            continue;
        };
        process.hears(Some(notices.cursor()));
        loop {
            let previous = notices.cursor();
            let Ok(notice) = notices.next().await else { break };
            world.checker.notice_published(previous, &notice);
            process.hears(Some(notice.cursor));
        }
    }
}

/// Long enough for everything that was held back to come due: the longest delay, then a lease, a circuit, a poll.
pub(crate) fn patience(settings: &Settings) -> Duration {
    let longest_wait = settings.policy.max_backoff().max(posthaste_domain::RETRY_AFTER_MAX);
    // Poison takes its worker down as often as it is allowed to.
    let poison = (settings.lease.duration() + Duration::from_secs(30)) * settings.abandon_after;
    longest_wait
        + poison
        + settings.lease.duration() * 2
        + settings.breaker.cool_down() * 2
        + Duration::from_secs(120)
}
