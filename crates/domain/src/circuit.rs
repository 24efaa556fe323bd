//! The circuit breaker of one destination, as a pure state machine.
//!
//! Time is a duration since any fixed moment of the caller's monotonic clock. Nothing is deferred *here*: the
//! caller asks [`Breaker::circuit`] before it claims and [`Breaker::admit`] before it sends, and an event that is
//! not admitted stays due, its attempts untouched.
//!
//! | state | on | to | and |
//! |---|---|---|---|
//! | closed | admit | closed | admitted |
//! | closed | success | closed | consecutive failures back to 0 |
//! | closed | failure, limits not reached | closed | counted |
//! | closed | failure that makes `consecutive` in a row | open | until now + `cool_down` |
//! | closed | failure that makes `ratio_bps` of at least `samples_min` in this window | open | until now + `cool_down` |
//! | closed | a result of a send from before it closed | closed | ignored |
//! | closed | window over | closed | counts of the window back to 0, the run of failures kept |
//! | closed | a result that says nothing (our own fault, released) | closed | not counted |
//! | open | admit | open | refused |
//! | open | any result | open | ignored: it was sent before the circuit opened |
//! | open | `cool_down` over | half-open | no probe out |
//! | half-open | admit, no probe out | half-open | this one is the probe |
//! | half-open | admit, probe out | half-open | refused |
//! | half-open | probe succeeds | closed | all counts 0 |
//! | half-open | probe fails | open | until now + `cool_down` |
//! | half-open | probe says nothing (our own fault, released) | half-open | no probe out |
//! | half-open | any other result | half-open | ignored |
//!
//! A breaker may be forgotten once it is closed and remembers nothing: no sample in this window, no run of failures.
//! So may one that is closed or half-open, has no probe out, and has heard nothing for sixty windows.

use std::time::Duration;

use crate::Health;

/// A breaker that has heard nothing for this many windows is forgotten: its destination is silent, or gone.
const FORGET_AFTER_WINDOWS: u32 = 60;

/// When a circuit opens and how long it stays so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerPolicy {
    window: Duration,
    samples_min: u32,
    ratio_bps: u32,
    consecutive: u32,
    cool_down: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BreakerPolicyError {
    #[error("a circuit's window and cool-down must be longer than zero")]
    Zero,
    #[error("a failure ratio of {0} basis points is out of range; it must be 1 to 10000")]
    Ratio(u32),
    #[error("a circuit must see at least one sample and one failure before it opens")]
    NoEvidence,
}

impl BreakerPolicy {
    pub fn new(
        window: Duration,
        samples_min: u32,
        ratio_bps: u32,
        consecutive: u32,
        cool_down: Duration,
    ) -> Result<Self, BreakerPolicyError> {
        if window.is_zero() || cool_down.is_zero() {
            return Err(BreakerPolicyError::Zero);
        }
        if !(1..=10_000).contains(&ratio_bps) {
            return Err(BreakerPolicyError::Ratio(ratio_bps));
        }
        if samples_min == 0 || consecutive == 0 {
            return Err(BreakerPolicyError::NoEvidence);
        }
        Ok(Self { window, samples_min, ratio_bps, consecutive, cool_down })
    }

    pub fn cool_down(&self) -> Duration {
        self.cool_down
    }
}

/// Half of at least twenty in a minute, or ten in a row, opens for thirty seconds.
impl Default for BreakerPolicy {
    fn default() -> Self {
        Self {
            window: Duration::from_secs(60),
            samples_min: 20,
            ratio_bps: 5_000,
            consecutive: 10,
            cool_down: Duration::from_secs(30),
        }
    }
}

/// What a destination may be sent right now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Circuit {
    Closed,
    /// Nothing, for at least this much longer.
    Open {
        remaining: Duration,
    },
    /// One probe, unless it is already out.
    HalfOpen {
        probe_out: bool,
    },
}

/// Permission to send, returned with the result. It dates the send: the result of one that was admitted before the
/// circuit came into its present state says nothing about that state.
#[derive(Debug, PartialEq, Eq)]
pub struct Permit {
    admitted_at: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Closed { window_start: Duration, samples: u32, failures: u32, run: u32 },
    Open { until: Duration },
    HalfOpen { probe_out: bool },
}

#[derive(Debug, Clone)]
pub struct Breaker {
    policy: BreakerPolicy,
    state: State,
    /// When it came into this state.
    since: Duration,
    last_result_at: Duration,
}

impl Breaker {
    pub fn new(policy: BreakerPolicy, now: Duration) -> Self {
        Self { policy, state: closed(now, 0), since: now, last_result_at: now }
    }

    pub fn circuit(&mut self, now: Duration) -> Circuit {
        self.pass_time(now);
        match self.state {
            State::Closed { .. } => Circuit::Closed,
            State::Open { until } => Circuit::Open { remaining: until.saturating_sub(now) },
            State::HalfOpen { probe_out } => Circuit::HalfOpen { probe_out },
        }
    }

    /// Asks to send now. In half-open the first to ask carries the probe.
    pub fn admit(&mut self, now: Duration) -> Option<Permit> {
        self.pass_time(now);
        match &mut self.state {
            State::Closed { .. } => {}
            State::HalfOpen { probe_out } if !*probe_out => *probe_out = true,
            State::Open { .. } | State::HalfOpen { .. } => return None,
        }
        Some(Permit { admitted_at: now })
    }

    /// Takes the result of an admitted send.
    pub fn record(&mut self, permit: Permit, health: Health, now: Duration) {
        self.pass_time(now);
        self.last_result_at = now;
        if permit.admitted_at < self.since {
            return;
        }
        match (&mut self.state, health) {
            (State::Closed { samples, run, .. }, Health::Healthy) => {
                *samples = samples.saturating_add(1);
                *run = 0;
            }
            (State::Closed { samples, failures, run, .. }, Health::Unhealthy) => {
                *samples = samples.saturating_add(1);
                *failures = failures.saturating_add(1);
                *run = run.saturating_add(1);
                if self.policy.trips(*samples, *failures, *run) {
                    self.open(now);
                }
            }
            (State::HalfOpen { .. }, Health::Healthy) => self.enter(closed(now, 0), now),
            (State::HalfOpen { .. }, Health::Unhealthy) => self.open(now),
            (_, Health::Unknown) => self.withdraw(permit),
            (State::Open { .. }, _) => {}
        }
    }

    /// Takes back a permit whose send told nothing or was never made: a probe makes room for another.
    #[expect(clippy::needless_pass_by_value, reason = "a permit is used once")]
    pub fn withdraw(&mut self, permit: Permit) {
        let Permit { admitted_at } = permit;
        match &mut self.state {
            State::HalfOpen { probe_out } if admitted_at >= self.since => *probe_out = false,
            State::Closed { .. } | State::Open { .. } | State::HalfOpen { .. } => {}
        }
    }

    /// True when it may be forgotten: nothing is remembered, or nothing has been heard for so long that what is
    /// remembered has no meaning any more.
    pub fn is_idle(&mut self, now: Duration) -> bool {
        self.pass_time(now);
        let unheard = now.saturating_sub(self.last_result_at)
            >= self.policy.window.saturating_mul(FORGET_AFTER_WINDOWS);
        match self.state {
            State::Closed { samples, run, .. } => unheard || (samples == 0 && run == 0),
            State::HalfOpen { probe_out } => unheard && !probe_out,
            State::Open { .. } => false,
        }
    }

    /// When it came into its present state.
    pub const fn since(&self) -> Duration {
        self.since
    }

    fn pass_time(&mut self, now: Duration) {
        match self.state {
            State::Closed { window_start, run, .. }
                if now.saturating_sub(window_start) >= self.policy.window =>
            {
                // Not a new state: sends of the last window report on this same circuit.
                self.state = closed(now, run);
            }
            State::Open { until } if now >= until => self.enter(State::HalfOpen { probe_out: false }, now),
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
    fn trips(&self, samples: u32, failures: u32, run: u32) -> bool {
        let ratio_reached = u64::from(failures) * 10_000 >= u64::from(samples) * u64::from(self.ratio_bps);
        run >= self.consecutive || (samples >= self.samples_min && ratio_reached)
    }
}

const fn closed(now: Duration, run: u32) -> State {
    State::Closed { window_start: now, samples: 0, failures: 0, run }
}

#[cfg(test)]
mod tests;
