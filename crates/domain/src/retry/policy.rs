//! The retry policy, which is valid by construction: [`RetryPolicy::new`] is the only constructor.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::backoff::{RandomDraw, exponential, jitter_window, pick};
use crate::Outcome;

/// Shortest retry delay that the retry contract allows.
pub const FAST_RETRY_FLOOR: Duration = Duration::from_secs(30);
/// Shortest delay of a policy that allows fast retries.
const FAST_DELAY_MIN: Duration = Duration::from_secs(1);
/// Largest jitter, in basis points of the delay: 100 %.
pub const JITTER_BPS_MAX: u32 = 10_000;
/// Largest `max_backoff` that a policy may set.
pub(crate) const MAX_BACKOFF_MAX: Duration = Duration::from_secs(365 * 24 * 3_600);
/// How long a receiver fails before its endpoint is disabled, by default.
const DISABLE_ENDPOINTS_AFTER: Duration = Duration::from_secs(5 * 24 * 3_600);
/// Largest number of steps in a schedule.
const STEPS_MAX: usize = 100;
/// Largest number of retries that a policy may set.
const MAX_RETRIES_MAX: u32 = 999;

/// How the delay grows from one retry to the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Strategy {
    /// The delay is `base · 2ⁿ`, with n = 0 for the first retry.
    Exponential { base: Duration },
    /// The delays are exactly these steps. Further retries repeat the last step.
    Schedule { steps: Vec<Duration> },
}

/// The settings of a retry policy, not yet validated. `None` takes the default of the strategy.
#[derive(Debug, Clone)]
pub struct RetryPolicySpec {
    pub strategy: Strategy,
    /// Jitter in basis points of the delay, in both directions.
    pub jitter_bps: Option<u32>,
    /// Upper bound of every delay and of every pause of a destination.
    pub max_backoff: Option<Duration>,
    /// Number of retries; the number of attempts is one more.
    pub max_retries: Option<u32>,
    /// Retry budget: lowers the retries of every event, including stored events. 0 turns it off.
    pub budget: u32,
    /// Whether status 410 dead-letters an event at once.
    pub gone_is_final: Option<bool>,
    /// Whether a `Retry-After` lengthens delays and pauses the destination.
    pub honours_retry_after: Option<bool>,
    /// Whether an open circuit defers the events of a destination.
    pub uses_circuit_breaker: Option<bool>,
    /// How long a receiver fails before its endpoint is disabled. `None` disables none for that.
    pub disable_endpoints_after: Option<Duration>,
    /// Permits delays under [`FAST_RETRY_FLOOR`], down to one second. For tests.
    pub allow_fast_retries: bool,
}

impl RetryPolicySpec {
    /// The default settings: 60 s · 2ⁿ ± 20 %, five retries, no delay above an hour.
    pub fn exponential() -> Self {
        Self::for_strategy(Strategy::Exponential { base: Duration::from_secs(60) })
    }

    /// The settings of the strategy `schedule`: 30 s, 2 min, 10 min, 1 h, 6 h without jitter. The fifth failure is
    /// terminal. Every response other than 2xx is one failure, and nothing but the schedule delays a retry.
    pub fn schedule() -> Self {
        Self::for_strategy(Strategy::Schedule {
            steps: [30, 120, 600, 3_600, 21_600].map(Duration::from_secs).to_vec(),
        })
    }

    /// Builds the settings for a strategy, with the defaults of that strategy.
    pub fn for_strategy(strategy: Strategy) -> Self {
        Self {
            strategy,
            jitter_bps: None,
            max_backoff: None,
            max_retries: None,
            budget: 0,
            gone_is_final: None,
            honours_retry_after: None,
            uses_circuit_breaker: None,
            disable_endpoints_after: Some(DISABLE_ENDPOINTS_AFTER),
            allow_fast_retries: false,
        }
    }
}

/// Why a retry policy was refused.
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
    #[error("max_backoff of {0:?} is too long; it must be at most {MAX_BACKOFF_MAX:?}")]
    BackoffTooLong(Duration),
    #[error("{0} retries are too many; at most {MAX_RETRIES_MAX} are allowed")]
    TooManyRetries(u32),
}

/// A valid retry policy: the delay before each retry, how many attempts an event gets, and which signals of a receiver
/// change either.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    strategy: Strategy,
    jitter_bps: u32,
    /// Lower and upper bound of every delay. The upper bound is `max_backoff`.
    delay_bounds: RangeInclusive<Duration>,
    max_attempts: u32,
    budget: u32,
    gone_is_final: bool,
    honours_retry_after: bool,
    uses_circuit_breaker: bool,
    disable_endpoints_after: Option<Duration>,
}

impl RetryPolicy {
    /// Validates the settings and fills in the defaults of the strategy.
    pub fn new(spec: RetryPolicySpec) -> Result<Self, RetryPolicyError> {
        let (first, longest) = first_and_longest_delay(&spec.strategy)?;
        if first.is_zero() {
            return Err(RetryPolicyError::Zero);
        }
        if first < FAST_RETRY_FLOOR && !spec.allow_fast_retries {
            return Err(RetryPolicyError::TooFast { first });
        }
        let delay_min = if spec.allow_fast_retries { FAST_DELAY_MIN } else { FAST_RETRY_FLOOR };
        let longest = longest.max(delay_min);
        let defaults = Defaults::of(&spec.strategy, longest);
        let jitter_bps = spec.jitter_bps.unwrap_or(defaults.jitter_bps);
        if jitter_bps > JITTER_BPS_MAX {
            return Err(RetryPolicyError::Jitter(jitter_bps));
        }
        let max_backoff = spec.max_backoff.unwrap_or(defaults.max_backoff);
        if max_backoff < longest {
            return Err(RetryPolicyError::BackoffTooShort { max_backoff, delay: longest });
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
            delay_bounds: delay_min..=max_backoff,
            max_attempts: max_retries + 1,
            budget: spec.budget,
            gone_is_final: spec.gone_is_final.unwrap_or(defaults.heeds_receiver),
            honours_retry_after: spec.honours_retry_after.unwrap_or(defaults.heeds_receiver),
            uses_circuit_breaker: spec.uses_circuit_breaker.unwrap_or(defaults.heeds_receiver),
            disable_endpoints_after: spec.disable_endpoints_after,
        })
    }

    /// Returns the delay before retry `n`, counting from zero: drawn evenly from its [window](Self::delay_range).
    pub fn delay(&self, n: u32, draw: RandomDraw) -> Duration {
        pick(&self.delay_range(n), draw)
    }

    /// Returns the window of the delay before retry `n`: the delay of the strategy, at most `max_backoff`, ± jitter. The
    /// window is cut to the floor of 30 s (1 s if fast retries are allowed) and to `max_backoff`, so that delays at
    /// either bound are still spread.
    pub fn delay_range(&self, n: u32) -> RangeInclusive<Duration> {
        let nominal = self.strategy_delay(n).min(self.max_backoff());
        jitter_window(nominal, self.jitter_bps, &self.delay_bounds)
    }

    /// Applies the retry budget to the `max_attempts` stored with an event. The budget lowers it and never raises it.
    pub fn effective_max_attempts(&self, max_attempts: u32) -> u32 {
        match self.budget {
            0 => max_attempts,
            budget => max_attempts.min(budget.saturating_add(1)),
        }
    }

    /// The number of attempts for an event whose producer sets no `max_attempts`.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// The longest time that the delays of an event can add up to, if its producer sets no `max_attempts`.
    pub fn longest_total_delay(&self) -> Duration {
        let retries = self.effective_max_attempts(self.max_attempts).saturating_sub(1);
        (0..retries).map(|n| *self.delay_range(n).end()).fold(Duration::ZERO, Duration::saturating_add)
    }

    /// The upper bound of every delay and of every pause of a destination.
    pub fn max_backoff(&self) -> Duration {
        *self.delay_bounds.end()
    }

    /// Whether status 410 dead-letters an event at once. Otherwise it is a failure like any other.
    pub fn gone_is_final(&self) -> bool {
        self.gone_is_final
    }

    /// The pause that an outcome requests for its destination, at most `max_backoff`. `None` if the policy does not
    /// honour `Retry-After`.
    pub fn honoured_pause(&self, outcome: &Outcome) -> Option<Duration> {
        let requested = outcome.requested_pause().filter(|_| self.honours_retry_after);
        requested.map(|pause| pause.min(self.max_backoff()))
    }

    /// Whether an open circuit defers the events of a destination.
    pub fn uses_circuit_breaker(&self) -> bool {
        self.uses_circuit_breaker
    }

    /// How long a receiver fails before its endpoint is disabled. `None` disables none for that.
    pub fn disable_endpoints_after(&self) -> Option<Duration> {
        self.disable_endpoints_after
    }

    /// Returns true if a delay may be under [`FAST_RETRY_FLOOR`], which only `allow_fast_retries` permits. The program
    /// logs a warning at every start.
    pub fn violates_retry_contract(&self) -> bool {
        // The first window is the lowest, because delays never shrink.
        *self.delay_range(0).start() < FAST_RETRY_FLOOR
    }

    /// The delay of the strategy before retry `n`, without jitter and bounds.
    fn strategy_delay(&self, n: u32) -> Duration {
        match &self.strategy {
            Strategy::Exponential { base } => exponential(*base, n),
            Strategy::Schedule { steps } => {
                let n = usize::try_from(n).unwrap_or(usize::MAX);
                steps[n.min(steps.len() - 1)]
            }
        }
    }
}

/// The policy of the retry contract: 60 s · 2ⁿ ± 20 %, five retries.
impl Default for RetryPolicy {
    fn default() -> Self {
        Self::new(RetryPolicySpec::exponential()).expect("the default policy is valid")
    }
}

/// The defaults of a strategy.
struct Defaults {
    jitter_bps: u32,
    max_backoff: Duration,
    max_retries: u32,
    /// Whether 410, `Retry-After` and the circuit breaker have an effect. A schedule is exact without them.
    heeds_receiver: bool,
}

impl Defaults {
    fn of(strategy: &Strategy, longest: Duration) -> Self {
        match strategy {
            Strategy::Exponential { .. } => {
                let max_backoff = Duration::from_secs(3_600);
                Self { jitter_bps: 2_000, max_backoff, max_retries: 5, heeds_receiver: true }
            }
            Strategy::Schedule { .. } => {
                Self { jitter_bps: 0, max_backoff: longest, max_retries: 4, heeds_receiver: false }
            }
        }
    }
}

/// Validates the strategy and returns its first and its longest configured delay.
fn first_and_longest_delay(strategy: &Strategy) -> Result<(Duration, Duration), RetryPolicyError> {
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
