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
    /// Whether the store tells workers of new events, or leaves them to their polls.
    pub wakes: bool,
    pub retry: RetryRules,
    /// Every worker runs under these, but for its id.
    pub settings: Settings,
}

/// The retry policy in plain numbers, from which the checker computes for itself what the engine should do.
#[derive(Debug, Clone)]
pub struct RetryRules {
    pub strategy: Strategy,
    pub jitter_bps: u32,
    pub max_backoff: Duration,
    pub max_retries: u32,
    pub budget: u32,
}

impl RetryRules {
    fn of(dice: &Dice) -> Self {
        let strategy = match dice.index(4) {
            0 | 1 => Strategy::Exponential { base: Duration::from_secs(60) },
            2 => Strategy::Schedule { steps: [30, 120, 600, 3_600].map(Duration::from_secs).to_vec() },
            _ => Strategy::Schedule { steps: [30, 60, 90, 300].map(Duration::from_secs).to_vec() },
        };
        Self {
            strategy,
            jitter_bps: dice.pick(&[0, 2_000, 5_000, 10_000]),
            max_backoff: Duration::from_secs(3_600),
            max_retries: u32::try_from(dice.within(2..7)).expect("at most 6"),
            budget: if dice.chance(300) { u32::try_from(dice.within(1..6)).expect("at most 5") } else { 0 },
        }
    }

    fn policy(&self) -> RetryPolicy {
        let mut spec = RetryPolicySpec::of(self.strategy.clone());
        spec.jitter_bps = Some(self.jitter_bps);
        spec.max_backoff = Some(self.max_backoff);
        spec.max_retries = Some(self.max_retries);
        spec.budget = self.budget;
        RetryPolicy::new(spec).expect("within the contract")
    }

    /// The shortest and the longest delay before retry `n`.
    pub(crate) fn window(&self, n: u32) -> (Duration, Duration) {
        let seconds = match &self.strategy {
            Strategy::Exponential { base } => {
                base.as_secs_f64() * 2_f64.powi(i32::try_from(n).unwrap_or(i32::MAX))
            }
            Strategy::Schedule { steps } => steps[(n as usize).min(steps.len() - 1)].as_secs_f64(),
        };
        let reach = seconds * f64::from(self.jitter_bps) / 10_000.0;
        let clamped =
            |seconds: f64| Duration::from_secs_f64(seconds.clamp(1.0, self.max_backoff.as_secs_f64()));
        // Floating point may be off by a microsecond.
        let slack = Duration::from_micros(1);
        (clamped(seconds - reach) - slack, clamped(seconds + reach) + slack)
    }

    /// Attempts that an event with this `max_attempts` gets.
    pub(crate) fn attempts_allowed(&self, max_attempts: u32) -> u32 {
        if self.budget == 0 { max_attempts } else { max_attempts.min(self.budget + 1) }
    }
}

impl Scenario {
    /// An hour of turmoil, shaped by the seed.
    pub fn of(seed: u64) -> Self {
        let dice = Dice::new(seed, 1);
        let retry = RetryRules::of(&dice);
        let worker_id = WorkerId::new("template").expect("visible ASCII");
        let mut settings = Settings::new(worker_id);
        settings.policy = retry.policy();
        settings.breaker = breaker(&dice);
        settings.lease =
            LeaseTerms::new(dice.millis(4_000..30_000)).expect("four seconds leave room for a heartbeat");
        settings.timeout = dice.millis(5_000..30_000);
        settings.concurrency = dice.index(28) + 4;
        settings.per_destination = dice.index(7) + 2;
        settings.retry_batch = dice.index(14) + 2;
        settings.poll_interval = dice.millis(500..2_000);
        settings.retention = dice.chance(300).then(|| dice.millis(1_200_000..3_600_000));
        Self {
            calm: Calm::InTheEnd,
            turmoil: Duration::from_secs(3_600),
            workers: dice.index(4) + 1,
            destinations: dice.index(4) + 3,
            events: dice.index(200) + 100,
            wakes: dice.chance(700),
            retry,
            settings,
        }
    }

    /// The same world with nothing going wrong in it.
    pub fn calm(seed: u64) -> Self {
        Self { calm: Calm::Always, ..Self::of(seed) }
    }
}

fn breaker(dice: &Dice) -> BreakerPolicy {
    if dice.chance(500) {
        return BreakerPolicy::default();
    }
    BreakerPolicy::new(Duration::from_secs(30), 4, 5_000, 3, dice.millis(1_000..60_000))
        .expect("shows evidence")
}
