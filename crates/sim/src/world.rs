//! What all parts of a simulation share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::DestinationUrl;

use crate::check::Checker;
use crate::dice::Dice;
use crate::fault::{Fault, Tally};
use crate::incarnation::Incarnation;
use crate::receivers::Manner;
use crate::scenario::Scenario;
use crate::time::WorldClock;

pub(crate) struct World {
    pub(crate) scenario: Scenario,
    pub(crate) clock: WorldClock,
    pub(crate) checker: Arc<Checker>,
    /// For whatever happens to calls and sends.
    pub(crate) dice: Dice,
    weather: Mutex<Weather>,
}

struct Weather {
    calm: bool,
    outage_until: Duration,
    manners: Vec<Manner>,
    /// The present life of each worker.
    incarnations: Vec<Option<Arc<Incarnation>>>,
    tally: Tally,
}

impl World {
    pub(crate) fn new(seed: u64, scenario: Scenario, clock: WorldClock, checker: Arc<Checker>) -> Self {
        let weather = Weather {
            calm: scenario.calm == crate::Calm::Always,
            outage_until: Duration::ZERO,
            manners: vec![Manner::Healthy; scenario.destinations],
            incarnations: vec![None; scenario.workers],
            tally: Tally::default(),
        };
        Self { scenario, clock, checker, dice: Dice::new(seed, 2), weather: Mutex::new(weather) }
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.weather().calm
    }

    /// No new faults, and every old one heals.
    pub(crate) fn calm_down(&self) {
        let mut weather = self.weather();
        weather.calm = true;
        weather.outage_until = Duration::ZERO;
        weather.manners.fill(Manner::Healthy);
        for incarnation in weather.incarnations.iter().flatten() {
            incarnation.drift(1_000, self.scenario.settings.lease.duration());
            incarnation.ills().clock_step_s = 0;
            let mut ills = incarnation.ills();
            ills.slow_until = Duration::ZERO;
            ills.slow_settle_until = Duration::ZERO;
            ills.heartbeat_lost_until = Duration::ZERO;
        }
    }

    /// Whether a fault that comes `per_mille` times in a thousand comes now.
    pub(crate) fn strikes(&self, per_mille: u64) -> bool {
        !self.is_calm() && self.dice.chance(per_mille)
    }

    pub(crate) fn count(&self, fault: Fault) {
        self.weather().tally.count(fault);
    }

    pub(crate) fn tally(&self) -> Tally {
        self.weather().tally.clone()
    }

    pub(crate) fn is_out(&self) -> bool {
        self.weather().outage_until > self.clock.elapsed()
    }

    pub(crate) fn go_out(&self, until: Duration) {
        self.weather().outage_until = until;
    }

    pub(crate) fn manner_of(&self, destination: &DestinationUrl) -> Manner {
        let number = destination.as_str().rsplit('/').next().and_then(|number| number.parse::<usize>().ok());
        let number = number.expect("destinations end in their number");
        self.weather().manners[number]
    }

    pub(crate) fn set_manner(&self, destination: usize, manner: Manner) {
        self.weather().manners[destination] = manner;
    }

    pub(crate) fn booted(&self, worker: usize, incarnation: Arc<Incarnation>) {
        self.weather().incarnations[worker] = Some(incarnation);
    }

    /// The workers that are up.
    pub(crate) fn workers(&self) -> Vec<Arc<Incarnation>> {
        let weather = self.weather();
        weather.incarnations.iter().flatten().filter(|process| !process.is_crashed()).cloned().collect()
    }

    /// One of the workers that are up.
    pub(crate) fn some_worker(&self, dice: &Dice) -> Option<Arc<Incarnation>> {
        let up = self.workers();
        if up.is_empty() { None } else { Some(dice.pick(&up)) }
    }

    fn weather(&self) -> MutexGuard<'_, Weather> {
        self.weather.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The URL of a receiver, by number.
pub(crate) fn destination(number: usize) -> String {
    format!("https://receiver.test/{number}")
}
