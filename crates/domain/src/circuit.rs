//! The circuit breaker of one destination, as a pure state machine.
//!
//! Times are durations since a fixed start on the caller's monotonic clock. The caller checks
//! [`CircuitBreaker::circuit`] before it claims and [`CircuitBreaker::admit`] before it sends. An event that is not
//! admitted stays due and consumes no attempt.
//!
//! | state | on | to | and |
//! |---|---|---|---|
//! | closed | admit | closed | admitted |
//! | closed | success | closed | consecutive failures reset to 0 |
//! | closed | failure, limits not reached | closed | counted |
//! | closed | failure, `failures_max` consecutive failures reached | open | until now + `cool_down` |
//! | closed | failure, `ratio_bps` of at least `samples_min` results in this window reached | open | until now + `cool_down` |
//! | closed | result of a send admitted before the circuit closed | closed | ignored |
//! | closed | window ends | closed | window counts reset to 0, consecutive failures kept |
//! | closed | result that shows nothing about the receiver (our own fault, released) | closed | not counted |
//! | open | admit | open | refused |
//! | open | any result | open | ignored: the send was admitted before the circuit opened |
//! | open | `cool_down` ends | half-open | no probe in flight |
//! | half-open | admit, no probe in flight | half-open | admitted as the probe |
//! | half-open | admit, probe in flight | half-open | refused |
//! | half-open | probe succeeds | closed | all counts reset to 0 |
//! | half-open | probe fails | open | until now + `cool_down` |
//! | half-open | probe shows nothing about the receiver (our own fault, released) | half-open | no probe in flight |
//! | half-open | any other result | half-open | ignored |
//! | open | an operator asks for a probe | half-open | no probe in flight |
//! | any | an operator closes it | closed | all counts reset to 0 |
//!
//! A breaker is idle, and the caller may drop it, when it is closed and has neither a result in this window nor
//! consecutive failures. It is also idle when it is closed or half-open, has no probe in flight, and got no result for
//! sixty windows.

use std::time::Duration;

use crate::ReceiverHealth;

/// A breaker without a result for this many windows is idle: its destination no longer gets events.
const IDLE_AFTER_WINDOWS: u32 = 60;

/// When a circuit opens, and how long it stays open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Period in which results are counted for `ratio_bps`.
    window: Duration,
    /// Fewest results in a window for `ratio_bps` to apply.
    samples_min: u32,
    /// Share of failures in a window that opens the circuit, in basis points.
    ratio_bps: u32,
    /// Number of consecutive failures that opens the circuit.
    failures_max: u32,
    /// How long the circuit stays open.
    cool_down: Duration,
}

/// Why a breaker policy was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BreakerPolicyError {
    #[error("the window and the cool-down of a circuit must be longer than zero")]
    Zero,
    #[error("a failure ratio of {0} basis points is out of range; it must be 1 to 10000")]
    Ratio(u32),
    #[error("the sample minimum and the failure limit of a circuit must be at least 1")]
    NoEvidence,
}

impl BreakerPolicy {
    /// Validates a policy. The fields of [`BreakerPolicy`] describe the arguments.
    pub fn new(
        window: Duration,
        samples_min: u32,
        ratio_bps: u32,
        failures_max: u32,
        cool_down: Duration,
    ) -> Result<Self, BreakerPolicyError> {
        if window.is_zero() || cool_down.is_zero() {
            return Err(BreakerPolicyError::Zero);
        }
        if !(1..=10_000).contains(&ratio_bps) {
            return Err(BreakerPolicyError::Ratio(ratio_bps));
        }
        if samples_min == 0 || failures_max == 0 {
            return Err(BreakerPolicyError::NoEvidence);
        }
        Ok(Self { window, samples_min, ratio_bps, failures_max, cool_down })
    }

    /// How long the circuit stays open.
    pub fn cool_down(&self) -> Duration {
        self.cool_down
    }
}

/// Opens for thirty seconds when half of at least twenty results in a minute fail, or ten results in a row.
impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            samples_min: 20,
            ratio_bps: 5_000,
            failures_max: 10,
            cool_down: Duration::from_secs(30),
        }
    }
}

/// The state of a circuit: what may be sent to the destination now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    /// Everything may be sent.
    Closed,
    /// Nothing may be sent for the remaining time.
    Open { remaining: Duration },
    /// One probe may be sent, unless one is in flight.
    HalfOpen { probe_in_flight: bool },
}

/// The permission for one send. The caller returns it with the result.
///
/// It holds the time of admission: the breaker ignores the result of a send admitted before its current state began.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    admitted_at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { window_start: Duration, samples: u32, failures: u32, consecutive_failures: u32 },
    Open { until: Duration },
    HalfOpen { probe_in_flight: bool },
}

/// The circuit breaker of one destination. See the module's table of transitions.
#[derive(Debug, Clone)]
pub struct CircuitBreaker {
    policy: BreakerPolicy,
    state: State,
    /// When the current state began.
    since: Duration,
    last_result_at: Duration,
    /// Failures that had been counted when the circuit last opened from closed.
    failures: u32,
}

impl CircuitBreaker {
    /// Starts with a closed circuit.
    pub fn new(policy: BreakerPolicy, now: Duration) -> Self {
        Self { policy, state: closed(now, 0), since: now, last_result_at: now, failures: 0 }
    }

    /// Returns the state of the circuit at the time `now`.
    pub fn circuit(&mut self, now: Duration) -> Circuit {
        self.advance_to(now);
        match self.state {
            State::Closed { .. } => Circuit::Closed,
            State::Open { until } => Circuit::Open { remaining: until.saturating_sub(now) },
            State::HalfOpen { probe_in_flight } => Circuit::HalfOpen { probe_in_flight },
        }
    }

    /// Returns a permit if a send is allowed now. In half-open state the first send admitted is the probe.
    pub fn admit(&mut self, now: Duration) -> Option<Permit> {
        self.advance_to(now);
        match &mut self.state {
            State::Closed { .. } => {}
            State::HalfOpen { probe_in_flight } if !*probe_in_flight => *probe_in_flight = true,
            State::Open { .. } | State::HalfOpen { .. } => return None,
        }
        Some(Permit { admitted_at: now })
    }

    /// Counts the result of an admitted send.
    pub fn record(&mut self, permit: Permit, health: ReceiverHealth, now: Duration) {
        self.advance_to(now);
        self.last_result_at = now;
        if permit.admitted_at < self.since {
            return;
        }
        match (&mut self.state, health) {
            (State::Closed { samples, consecutive_failures, .. }, ReceiverHealth::Healthy) => {
                *samples = samples.saturating_add(1);
                *consecutive_failures = 0;
            }
            (State::Closed { samples, failures, consecutive_failures, .. }, ReceiverHealth::Unhealthy) => {
                *samples = samples.saturating_add(1);
                *failures = failures.saturating_add(1);
                *consecutive_failures = consecutive_failures.saturating_add(1);
                if self.policy.trips(*samples, *failures, *consecutive_failures) {
                    self.failures = (*failures).max(*consecutive_failures);
                    self.open(now);
                }
            }
            (State::HalfOpen { .. }, ReceiverHealth::Healthy) => self.enter(closed(now, 0), now),
            (State::HalfOpen { .. }, ReceiverHealth::Unhealthy) => self.open(now),
            (_, ReceiverHealth::Unknown) => self.withdraw(permit),
            (State::Open { .. }, _) => {}
        }
    }

    /// Takes back a permit whose send was not made or shows nothing about the receiver. A withdrawn probe allows
    /// another.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is used once")]
    pub fn withdraw(&mut self, permit: Permit) {
        let Permit { admitted_at } = permit;
        match &mut self.state {
            State::HalfOpen { probe_in_flight } if admitted_at >= self.since => *probe_in_flight = false,
            State::Closed { .. } | State::Open { .. } | State::HalfOpen { .. } => {}
        }
    }

    /// Returns true if the caller may drop the breaker: it has counted nothing, or its last result is too old to
    /// matter.
    pub fn is_idle(&mut self, now: Duration) -> bool {
        self.advance_to(now);
        let is_outdated =
            now.saturating_sub(self.last_result_at) >= self.policy.window.saturating_mul(IDLE_AFTER_WINDOWS);
        match self.state {
            State::Closed { samples, consecutive_failures, .. } => {
                is_outdated || (samples == 0 && consecutive_failures == 0)
            }
            State::HalfOpen { probe_in_flight } => is_outdated && !probe_in_flight,
            State::Open { .. } => false,
        }
    }

    /// Ends the cool-down of an open circuit, because an operator wants to know whether the receiver has recovered. Returns whether
    /// it was open. The result of the probe decides.
    pub fn allow_probe(&mut self, now: Duration) -> bool {
        self.advance_to(now);
        let is_open = matches!(self.state, State::Open { .. });
        if is_open {
            self.enter(State::HalfOpen { probe_in_flight: false }, now);
        }
        is_open
    }

    /// Closes the circuit, because an operator knows that the receiver has recovered. Results of earlier sends are
    /// ignored.
    pub fn close(&mut self, now: Duration) {
        self.enter(closed(now, 0), now);
    }

    /// Returns the number of failures that opened the circuit.
    pub const fn failures(&self) -> u32 {
        self.failures
    }

    /// When the current state began.
    pub const fn since(&self) -> Duration {
        self.since
    }

    /// Applies the transitions that time alone causes.
    fn advance_to(&mut self, now: Duration) {
        match self.state {
            State::Closed { window_start, consecutive_failures, .. }
                if now.saturating_sub(window_start) >= self.policy.window =>
            {
                // `since` stays: results of sends admitted in the last window still count.
                self.state = closed(now, consecutive_failures);
            }
            State::Open { until } if now >= until => {
                self.enter(State::HalfOpen { probe_in_flight: false }, now);
            }
            State::Closed { .. } | State::Open { .. } | State::HalfOpen { .. } => {}
        }
    }

    fn open(&mut self, now: Duration) {
        self.enter(State::Open { until: now.saturating_add(self.policy.cool_down) }, now);
    }

    fn enter(&mut self, state: State, now: Duration) {
        self.state = state;
        self.since = now;
    }
}

impl BreakerPolicy {
    /// Returns true if these counts open the circuit.
    fn trips(&self, samples: u32, failures: u32, consecutive_failures: u32) -> bool {
        let ratio_reached = u64::from(failures) * 10_000 >= u64::from(samples) * u64::from(self.ratio_bps);
        consecutive_failures >= self.failures_max || (samples >= self.samples_min && ratio_reached)
    }
}

const fn closed(now: Duration, consecutive_failures: u32) -> State {
    State::Closed { window_start: now, samples: 0, failures: 0, consecutive_failures }
}

#[cfg(test)]
mod tests;
