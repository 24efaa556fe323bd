//! A retry policy that has been judged. There is no other way to build one.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::backoff::{DELAY_MIN, Roll, exponential, jittered};

/// Shortest first delay that the contract with receivers allows.
pub const FAST_RETRY_FLOOR: Duration = Duration::from_secs(30);
/// The whole of a delay, in basis points.
pub const JITTER_BPS_MAX: u32 = 10_000;
/// Longest delay that a policy may hold an event for.
const MAX_BACKOFF_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// Most steps of a schedule.
const STEPS_MAX: usize = 100;
/// Most retries that a policy may grant, far beyond what protects anyone.
const MAX_RETRIES_MAX: u32 = 999;

/// The shape of the delays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// `base · 2ⁿ`, n = 0 for the first retry.
    Exponential { base: Duration },
    /// Exactly these delays; the last repeats if attempts go on.
    Schedule { steps: Vec<Duration> },
}

/// What an operator asks for; `None` takes the strategy's default.
#[derive(Debug, Clone)]
pub struct RetryPolicySpec {
    pub strategy: Strategy,
    pub jitter_bps: Option<u32>,
    pub max_backoff: Option<Duration>,
    /// Retries, so an event gets one attempt more.
    pub max_retries: Option<u32>,
    /// Cap on retries at run time; 0 is off.
    pub budget: u32,
    /// Lets a first delay under [`FAST_RETRY_FLOOR`] pass. For tests.
    pub allow_fast_retries: bool,
}

impl RetryPolicySpec {
    /// 60 s · 2ⁿ ± 20 %, five retries, never above an hour.
    pub fn exponential() -> Self {
        Self::of(Strategy::Exponential { base: Duration::from_secs(60) })
    }

    /// 30 s, 2 min, 10 min, 1 h, 6 h without jitter; the fifth failure is terminal.
    pub fn schedule() -> Self {
        Self::of(Strategy::Schedule {
            steps: [30, 120, 600, 3_600, 21_600].map(Duration::from_secs).to_vec(),
        })
    }

    pub fn of(strategy: Strategy) -> Self {
        Self {
            strategy,
            jitter_bps: None,
            max_backoff: None,
            max_retries: None,
            budget: 0,
            allow_fast_retries: false,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RetryPolicyError {
    #[error(
        "the first retry delay of {first:?} is dangerously low: delays under {FAST_RETRY_FLOOR:?} risk overwhelming receivers and break \
         the retry contract (docs/retry-contract.md); raise it to {FAST_RETRY_FLOOR:?} or more, or set allow_fast_retries for tests"
    )]
    TooFast { first: Duration },
    #[error("the first retry delay must be longer than zero")]
    Zero,
    #[error("jitter of {0} basis points is out of range; it must be 0 to {JITTER_BPS_MAX}")]
    Jitter(u32),
    #[error("a retry schedule needs 1 to {STEPS_MAX} steps, got {0}")]
    Steps(usize),
    #[error(
        "the retry schedule goes down from {from:?} to {to:?}; each step must be at least as long as the one before"
    )]
    Descending { from: Duration, to: Duration },
    #[error(
        "max_backoff of {max_backoff:?} is shorter than the delay of {delay:?}; raise it or shorten the delay"
    )]
    BackoffTooShort { max_backoff: Duration, delay: Duration },
    #[error("max_backoff of {0:?} is beyond {MAX_BACKOFF_MAX:?}")]
    BackoffTooLong(Duration),
    #[error("{0} retries are more than the {MAX_RETRIES_MAX} that a policy may grant")]
    TooManyRetries(u32),
}

/// How long to wait and how often to try. Built only by [`RetryPolicy::new`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    strategy: Strategy,
    jitter_bps: u32,
    max_backoff: Duration,
    max_attempts: u32,
    budget: u32,
}

impl RetryPolicy {
    pub fn new(spec: RetryPolicySpec) -> Result<Self, RetryPolicyError> {
        let (first, longest) = extremes(&spec.strategy)?;
        if first.is_zero() {
            return Err(RetryPolicyError::Zero);
        }
        if first < FAST_RETRY_FLOOR && !spec.allow_fast_retries {
            return Err(RetryPolicyError::TooFast { first });
        }
        let defaults = Defaults::of(&spec.strategy, longest);
        let jitter_bps = spec.jitter_bps.unwrap_or(defaults.jitter_bps);
        if jitter_bps > JITTER_BPS_MAX {
            return Err(RetryPolicyError::Jitter(jitter_bps));
        }
        let max_backoff = spec.max_backoff.unwrap_or(defaults.max_backoff);
        if max_backoff < longest.max(DELAY_MIN) {
            return Err(RetryPolicyError::BackoffTooShort { max_backoff, delay: longest.max(DELAY_MIN) });
        }
        if max_backoff > MAX_BACKOFF_MAX {
            return Err(RetryPolicyError::BackoffTooLong(max_backoff));
        }
        let max_retries = spec.max_retries.unwrap_or(defaults.max_retries);
        if max_retries > MAX_RETRIES_MAX {
            return Err(RetryPolicyError::TooManyRetries(max_retries));
        }
        Ok(Self {
            strategy: spec.strategy,
            jitter_bps,
            max_backoff,
            max_attempts: max_retries + 1,
            budget: spec.budget,
        })
    }

    /// The delay before retry `n`, counting from zero: the window around the base delay, clamped after jitter
    /// to `[1 s, max_backoff]`.
    pub fn delay(&self, n: u32, roll: Roll) -> Duration {
        self.clamped(jittered(self.base_delay(n), self.jitter_bps, roll))
    }

    /// Every delay that [`delay`](Self::delay) can give for retry `n`.
    pub fn window(&self, n: u32) -> RangeInclusive<Duration> {
        self.delay(n, Roll(0))..=self.delay(n, Roll(u64::MAX))
    }

    /// Attempts that an event with this `max_attempts` really gets: the budget lowers it, and never raises it.
    pub fn effective_max_attempts(&self, max_attempts: u32) -> u32 {
        match self.budget {
            0 => max_attempts,
            budget => max_attempts.min(budget.saturating_add(1)),
        }
    }

    /// What an event gets whose producer asks for nothing.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    pub fn max_backoff(&self) -> Duration {
        self.max_backoff
    }

    /// True when the guard was waved through: to be warned of at every start.
    pub fn breaks_the_contract(&self) -> bool {
        self.base_delay(0) < FAST_RETRY_FLOOR
    }

    fn base_delay(&self, n: u32) -> Duration {
        match &self.strategy {
            Strategy::Exponential { base } => exponential(*base, n),
            Strategy::Schedule { steps } => {
                let n = usize::try_from(n).unwrap_or(usize::MAX);
                steps[n.min(steps.len() - 1)]
            }
        }
    }

    fn clamped(&self, delay: Duration) -> Duration {
        delay.clamp(DELAY_MIN, self.max_backoff)
    }
}

/// The contract with receivers: 60 s · 2ⁿ ± 20 %, five retries.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new(RetryPolicySpec::exponential()).expect("the contract satisfies its own rules")
    }
}

struct Defaults {
    jitter_bps: u32,
    max_backoff: Duration,
    max_retries: u32,
}

impl Defaults {
    fn of(strategy: &Strategy, longest: Duration) -> Self {
        match strategy {
            Strategy::Exponential { .. } => {
                Self { jitter_bps: 2_000, max_backoff: Duration::from_secs(3_600), max_retries: 5 }
            }
            Strategy::Schedule { .. } => {
                Self { jitter_bps: 0, max_backoff: longest.max(DELAY_MIN), max_retries: 4 }
            }
        }
    }
}

/// The first and the longest delay that the strategy itself names.
fn extremes(strategy: &Strategy) -> Result<(Duration, Duration), RetryPolicyError> {
    match strategy {
        Strategy::Exponential { base } => Ok((*base, *base)),
        Strategy::Schedule { steps } => {
            let (Some(first), Some(last), ..=STEPS_MAX) = (steps.first(), steps.last(), steps.len()) else {
                return Err(RetryPolicyError::Steps(steps.len()));
            };
            match steps.windows(2).find(|pair| pair[1] < pair[0]) {
                Some(pair) => Err(RetryPolicyError::Descending { from: pair[0], to: pair[1] }),
                None => Ok((*first, *last)),
            }
        }
    }
}
