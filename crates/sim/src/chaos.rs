//! Changes the weather every few seconds, until the turmoil is over.

use std::sync::Arc;

use crate::dice::Dice;
use crate::fault::Fault;
use crate::receivers::Manner;
use crate::time::sleep;
use crate::world::World;

pub(crate) async fn reign(world: Arc<World>, seed: u64) {
    let dice = Dice::new(seed, 5);
    while !world.is_calm() {
        sleep(dice.millis(1_000..40_000)).await;
        if world.is_calm() {
            return;
        }
        strike(&world, &dice);
    }
}

fn strike(world: &World, dice: &Dice) {
    let now = world.clock.elapsed();
    let lease = world.scenario.settings.lease.duration();
    let worker = world.some_worker(dice);
    match (dice.index(10), worker) {
        (0, _) => world.go_out(now + dice.millis(500..40_000)),
        (1, Some(worker)) => worker.ills().slow_until = now + dice.millis(1_000..60_000),
        (2, Some(worker)) => worker.ills().slow_settle_until = now + dice.millis(10_000..120_000),
        (3, Some(worker)) => {
            world.count(Fault::StalledWorker);
            worker.stall_until(now + lease + dice.millis(100..60_000));
        }
        (4, Some(worker)) => worker.ills().heartbeat_lost_until = now + dice.millis(1_000..60_000),
        (5, Some(worker)) => {
            let hours = i64::try_from(dice.within(1..25)).expect("at most 24");
            worker.ills().clock_step_s = dice.pick(&[hours, -hours]) * 3_600;
        }
        (6, Some(worker)) => {
            world.count(Fault::ClockDrift);
            let drift = dice.pick(&[500, 900, 1_100, 1_500, 2_000, 4_000]);
            worker.drift(drift, lease);
        }
        _ => {
            let manner = if dice.chance(400) { Manner::Healthy } else { dice.pick(&Manner::ILL) };
            world.set_manner(dice.index(world.scenario.destinations), manner);
        }
    }
}
