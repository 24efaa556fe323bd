//! What a seed makes of the world before it starts.

use std::time::Duration;

use posthaste_domain::{BreakerPolicy, LeaseTerms, RetryPolicy, RetryPolicySpec, Strategy, WorkerId};
use posthaste_engine::Settings;

use crate::dice::Dice;

/// Whether faults are injected at all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Calm {
    /// Receivers, workers and store behave; every event is one request.
    Always,
    /// Only after the first part of the run, so that liveness can be judged.
    InTheEnd,
}

#[derive(Debug, Clone)]
pub struct Scenario {
    pub calm: Calm,
    /// How long faults are injected.
    pub turmoil: Duration,
    pub workers: usize,
    pub destinations: usize,
    pub events: usize,
    /// Every worker runs under these, but for its id.
    pub settings: Settings,
}

impl Scenario {
    /// An hour of turmoil, shaped by the seed.
    pub fn of(seed: u64) -> Self {
        let dice = Dice::new(seed, 1);
        let worker_id = WorkerId::new("template").expect("visible ASCII");
        let mut settings = Settings::new(worker_id);
        settings.policy = policy(&dice);
        settings.breaker = breaker(&dice);
        settings.lease =
            LeaseTerms::new(dice.millis(4_000..30_000)).expect("four seconds leave room for a heartbeat");
        settings.timeout = dice.millis(5_000..30_000);
        settings.concurrency = dice.index(28) + 4;
        settings.per_destination = dice.index(7) + 2;
        settings.retry_batch = dice.index(14) + 2;
        settings.poll_interval = dice.millis(500..2_000);
        Self {
            calm: Calm::InTheEnd,
            turmoil: Duration::from_secs(3_600),
            workers: dice.index(3) + 2,
            destinations: dice.index(4) + 3,
            events: dice.index(200) + 100,
            settings,
        }
    }

    /// The same world with nothing going wrong in it.
    pub fn calm(seed: u64) -> Self {
        Self { calm: Calm::Always, ..Self::of(seed) }
    }
}

fn policy(dice: &Dice) -> RetryPolicy {
    let mut spec = match dice.index(4) {
        0 | 1 => RetryPolicySpec::exponential(),
        2 => RetryPolicySpec::schedule(),
        _ => RetryPolicySpec::of(Strategy::Schedule {
            steps: [30, 60, 90, 300].map(Duration::from_secs).to_vec(),
        }),
    };
    if dice.chance(500) {
        spec.jitter_bps = Some(u32::try_from(dice.within(0..10_001)).expect("at most 10000"));
    }
    if dice.chance(300) {
        spec.budget = u32::try_from(dice.within(1..6)).expect("at most 5");
    }
    RetryPolicy::new(spec).expect("within the contract")
}

fn breaker(dice: &Dice) -> BreakerPolicy {
    if dice.chance(500) {
        return BreakerPolicy::default();
    }
    BreakerPolicy::new(Duration::from_secs(30), 4, 5_000, 3, dice.millis(1_000..60_000))
        .expect("shows evidence")
}
