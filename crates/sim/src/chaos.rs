//! Fault injection: starts a new fault every few seconds, for as long as the scenario injects faults.

use std::sync::Arc;

use posthaste_engine::LocalShortage;

use crate::fault::Fault;
use crate::random::SeededRandom;
use crate::receivers::ReceiverBehavior;
use crate::time::sleep;
use crate::world::{World, WriteRefusal};

pub(crate) async fn run(world: Arc<World>, seed: u64) {
    let random = SeededRandom::new(seed, 5);
    while !world.faults_are_over() {
        sleep(random.millis(1_000..40_000)).await;
        if world.faults_are_over() {
            return;
        }
        inject_fault(&world, &random);
    }
}

/// Starts one random fault of the store, of a worker or of a receiver.
fn inject_fault(world: &World, random: &SeededRandom) {
    let now = world.clock.elapsed();
    let lease = world.scenario.settings.lease.duration();
    let worker = world.random_process(random);
    match (random.index(14), worker) {
        (0, _) => world.start_outage(now + random.millis(500..40_000)),
        (1, Some(worker)) => worker.faults().slow_until = now + random.millis(1_000..60_000),
        (2, Some(worker)) => worker.faults().slow_settle_until = now + random.millis(10_000..120_000),
        (3, Some(worker)) => {
            world.count(Fault::StalledWorker);
            worker.stall_until(now + lease + random.millis(100..60_000));
        }
        (4, Some(worker)) => worker.faults().heartbeat_lost_until = now + random.millis(1_000..60_000),
        (5, Some(worker)) => {
            let hours = i64::try_from(random.in_range(1..25)).expect("at most 24");
            worker.faults().clock_step_s = random.pick(&[hours, -hours]) * 3_600;
        }
        (6, Some(worker)) => {
            world.count(Fault::ClockDrift);
            let per_mille = random.pick(&[500, 900, 1_100, 1_500, 2_000, 4_000]);
            worker.set_drift(per_mille, lease);
        }
        (7, Some(worker)) => {
            let until = now + random.millis(1_000..120_000);
            worker.faults().shortage = Some((random.pick(LocalShortage::ALL), until));
        }
        (8, _) => world.refuse_writes(WriteRefusal::Settles, now + random.millis(1_000..120_000)),
        (9, _) => world.refuse_writes(WriteRefusal::AllOfWorkers, now + random.millis(1_000..120_000)),
        (10, _) => {
            let longest_ms = random.pick(&[1_000, 120_000, 24 * 3_600_000]);
            world.step_clock_back(random.millis(1..longest_ms));
        }
        _ => {
            let behavior = if random.chance(400) {
                ReceiverBehavior::Healthy
            } else {
                random.pick(&ReceiverBehavior::FAULTY)
            };
            world.set_behavior(random.index(world.scenario.destinations), behavior);
        }
    }
}
