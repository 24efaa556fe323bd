//! The parameters of a simulation, derived from its seed.

use std::time::Duration;

use posthaste_domain::{
    BreakerPolicy, LeaseTerms, Outcome, RetryPolicy, RetryPolicySpec, Strategy, WorkerId,
};
use posthaste_engine::Settings;

use crate::random::SeededRandom;

/// Whether a simulation injects faults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultInjection {
    /// No faults: each event needs exactly one request.
    Off,
    /// Faults for `fault_duration`, then none, so that the checker can require every event to end.
    ThenRecovery,
}

/// The parameters of one simulation.
#[derive(Debug, Clone)]
pub struct Scenario {
    pub fault_injection: FaultInjection,
    /// How long faults are injected.
    pub fault_duration: Duration,
    pub workers: usize,
    pub destinations: usize,
    pub events: usize,
    /// Whether the store wakes workers when events are enqueued. Otherwise workers find events by polling.
    pub sends_wakeups: bool,
    pub retry: RetryRules,
    pub registry: RegistryRules,
    /// How long maintenance keeps a destination without events. Workers request a day, which no simulation lasts.
    pub keep_unused_destinations_for: Duration,
    /// Whether every receiver has a host of its own. Otherwise all share one, whose pace is that of the slowest.
    pub hosts_are_separate: bool,
    /// Healthy receivers answer faster than this.
    pub answers_within: Duration,
    /// The settings of every worker, except for its id and lease owner.
    pub settings: Settings,
}

/// How many resources of the registry the tenants create.
#[derive(Debug, Clone, Copy)]
pub struct RegistryRules {
    pub applications: usize,
    /// Endpoints of each application at the start. Tenants create some more while the simulation runs.
    pub endpoints: usize,
    /// Messages of all applications together.
    pub messages: usize,
}

impl RegistryRules {
    /// Two in five simulations have no registry.
    fn draw(random: &SeededRandom) -> Self {
        if random.chance(400) {
            return Self { applications: 0, endpoints: 0, messages: 0 };
        }
        Self {
            applications: random.index(2) + 1,
            endpoints: random.index(3) + 2,
            messages: random.index(40) + 10,
        }
    }

    /// Returns the most events that one endpoint gets, apart from resends.
    pub(crate) fn messages_max(self) -> u32 {
        u32::try_from(self.messages).unwrap_or(u32::MAX)
    }
}

/// The retry policy in plain numbers. The checker computes expected delays and limits from them, independently of
/// the domain's code.
#[derive(Debug, Clone)]
pub struct RetryRules {
    pub strategy: Strategy,
    pub jitter_bps: u32,
    pub max_backoff: Duration,
    pub max_retries: u32,
    pub budget: u32,
    /// Whether a 410 is final. None takes the default of the strategy, as do the next two fields.
    pub gone_is_final: Option<bool>,
    /// Whether `Retry-After` is honoured.
    pub honours_retry_after: Option<bool>,
    /// Whether circuits defer events.
    pub uses_circuit_breaker: Option<bool>,
}

impl RetryRules {
    fn draw(random: &SeededRandom) -> Self {
        let strategy = match random.index(4) {
            0 | 1 => Strategy::Exponential { base: Duration::from_secs(60) },
            2 => Strategy::Schedule { steps: [30, 120, 600, 3_600].map(Duration::from_secs).to_vec() },
            _ => Strategy::Schedule { steps: [30, 60, 90, 300].map(Duration::from_secs).to_vec() },
        };
        let (longest_step, is_capped) = match &strategy {
            Strategy::Exponential { base } => (*base, random.chance(500)),
            Strategy::Schedule { steps } => (steps[steps.len() - 1], random.chance(250)),
        };
        Self {
            strategy,
            jitter_bps: random.pick(&[0, 2_000, 5_000, 10_000]),
            // Half of the exponential policies reach their cap at the second retry.
            max_backoff: if is_capped { longest_step * 4 / 3 } else { Duration::from_secs(3_600) },
            max_retries: u32::try_from(random.in_range(2..7)).expect("at most 6"),
            budget: if random.chance(300) {
                u32::try_from(random.in_range(1..6)).expect("at most 5")
            } else {
                0
            },
            gone_is_final: random.pick(&[None, None, Some(true), Some(false)]),
            honours_retry_after: random.pick(&[None, None, Some(true), Some(false)]),
            uses_circuit_breaker: random.pick(&[None, None, Some(true), Some(false)]),
        }
    }

    /// Returns the settings of the policy that the engines use.
    pub fn spec(&self) -> RetryPolicySpec {
        RetryPolicySpec {
            jitter_bps: Some(self.jitter_bps),
            max_backoff: Some(self.max_backoff),
            max_retries: Some(self.max_retries),
            budget: self.budget,
            gone_is_final: self.gone_is_final,
            honours_retry_after: self.honours_retry_after,
            uses_circuit_breaker: self.uses_circuit_breaker,
            ..RetryPolicySpec::for_strategy(self.strategy.clone())
        }
    }

    /// Returns whether a 410 dead-letters an event at once.
    pub(crate) fn gone_is_final(&self) -> bool {
        self.gone_is_final.unwrap_or(self.is_exponential())
    }

    /// Returns whether circuits may open.
    pub(crate) fn uses_circuit_breaker(&self) -> bool {
        self.uses_circuit_breaker.unwrap_or(self.is_exponential())
    }

    /// Returns the pause that an outcome requests, at most `max_backoff`, or zero if it requests none or the policy does
    /// not honour it.
    pub(crate) fn honoured_pause(&self, outcome: &Outcome) -> Duration {
        match outcome {
            Outcome::Response { status: 429 | 503, retry_after: Some(pause), .. }
                if self.honours_retry_after.unwrap_or(self.is_exponential()) =>
            {
                (*pause).min(self.max_backoff)
            }
            _ => Duration::ZERO,
        }
    }

    fn is_exponential(&self) -> bool {
        matches!(self.strategy, Strategy::Exponential { .. })
    }

    /// Returns the shortest and the longest delay before retry `n`, counted from zero.
    pub(crate) fn delay_range(&self, n: u32) -> (Duration, Duration) {
        let (floor, cap) = (30.0, self.max_backoff.as_secs_f64());
        let seconds: f64 = match &self.strategy {
            Strategy::Exponential { base } => {
                base.as_secs_f64() * 2_f64.powi(i32::try_from(n).unwrap_or(i32::MAX))
            }
            Strategy::Schedule { steps } => steps[(n as usize).min(steps.len() - 1)].as_secs_f64(),
        };
        let nominal = seconds.min(cap);
        let jitter = nominal * f64::from(self.jitter_bps) / 10_000.0;
        // Floating point may be off by a microsecond.
        let slack = Duration::from_micros(1);
        let low = Duration::from_secs_f64((nominal - jitter).max(floor)) - slack;
        let high = Duration::from_secs_f64((nominal + jitter).min(cap)) + slack;
        (low, high)
    }

    /// Returns how many attempts an event with this `max_attempts` gets under the retry budget.
    pub(crate) fn attempts_allowed(&self, max_attempts: u32) -> u32 {
        if self.budget == 0 { max_attempts } else { max_attempts.min(self.budget + 1) }
    }
}

impl Scenario {
    /// Derives a scenario with one hour of faults from a seed.
    pub fn from_seed(seed: u64) -> Self {
        let random = SeededRandom::new(seed, 1);
        let retry = RetryRules::draw(&random);
        let worker_id = WorkerId::new("template").expect("visible ASCII");
        let mut settings = Settings::new(worker_id);
        settings.policy = RetryPolicy::new(retry.spec()).expect("within the contract");
        settings.breaker = breaker(&random);
        settings.lease = LeaseTerms::new(random.millis(4_000..30_000))
            .expect("four seconds is longer than the shortest heartbeat interval");
        settings.timeout = random.millis(5_000..30_000);
        settings.concurrency = random.index(28) + 4;
        settings.per_destination = random.index(7) + 2;
        settings.window_start = random.index(3) + 1;
        settings.retry_batch = random.index(14) + 2;
        // Payloads of more than 16 bytes are not small.
        settings.in_flight_bytes_max = settings.concurrency * 8 * 16;
        // Most large payloads do not come with their leases.
        settings.inline_payload_bytes_max = random.pick(&[16, 200]);
        settings.poll_interval = random.millis(500..2_000);
        settings.retention = random.chance(300).then(|| random.millis(1_200_000..3_600_000));
        settings.dead_letter_retention = random.chance(300).then(|| random.millis(1_200_000..3_600_000));
        let mut scenario = Self {
            fault_injection: FaultInjection::ThenRecovery,
            fault_duration: Duration::from_secs(3_600),
            workers: random.index(4) + 1,
            destinations: random.index(4) + 3,
            events: random.index(200) + 100,
            sends_wakeups: random.chance(700),
            keep_unused_destinations_for: random.millis(60_000..1_200_000),
            hosts_are_separate: false,
            answers_within: Duration::from_millis(200),
            retry,
            registry: RegistryRules::draw(&SeededRandom::new(seed, 8)),
            settings,
        };
        if scenario.registry.messages > 0 {
            // The events of messages take the place of some others.
            scenario.events = scenario.events * 2 / 3;
        }
        scenario.settings.expire_after = random.chance(700).then(|| random.millis(300_000..3_600_000));
        scenario.hosts_are_separate = random.chance(600);
        scenario.answers_within = Duration::from_millis(random.pick(&[50, 50, 200]));
        scenario
    }

    /// Derives the same scenario without faults.
    pub fn without_faults(seed: u64) -> Self {
        Self { fault_injection: FaultInjection::Off, ..Self::from_seed(seed) }
    }
}

fn breaker(random: &SeededRandom) -> BreakerPolicy {
    if random.chance(500) {
        return BreakerPolicy::default();
    }
    BreakerPolicy::new(Duration::from_secs(30), 4, 5_000, 3, random.millis(1_000..60_000))
        .expect("a valid policy")
}
