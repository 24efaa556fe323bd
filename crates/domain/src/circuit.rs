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

impl Permit {
    /// For a destination that has no breaker, because nothing about it is remembered.
    pub const fn unconditional(now: Duration) -> Self {
        Self { admitted_at: now }
    }
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
    /// Closed for as long as anyone remembers; results of sends admitted before `since` are not its business.
    pub fn new(policy: BreakerPolicy, since: Duration, now: Duration) -> Self {
        Self { policy, state: closed(now, 0), since, last_result_at: now }
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
        let unheard = now.saturating_sub(self.last_result_at) >= self.policy.window * FORGET_AFTER_WINDOWS;
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn breaker() -> Breaker {
        Breaker::new(BreakerPolicy::new(s(60), 10, 5_000, 5, s(30)).unwrap(), s(0), s(0))
    }

    fn report(breaker: &mut Breaker, health: Health, now: Duration) {
        let permit = breaker.admit(now).expect("admitted");
        breaker.record(permit, health, now);
    }

    fn opened() -> Breaker {
        let mut breaker = breaker();
        for _ in 0..5 {
            report(&mut breaker, Health::Unhealthy, s(1));
        }
        assert_eq!(breaker.circuit(s(1)), Circuit::Open { remaining: s(30) });
        breaker
    }

    #[test]
    fn opens_on_consecutive_failures_and_a_success_breaks_the_run() {
        let mut breaker = breaker();
        for _ in 0..4 {
            report(&mut breaker, Health::Unhealthy, s(1));
        }
        report(&mut breaker, Health::Healthy, s(1));
        for _ in 0..4 {
            report(&mut breaker, Health::Unhealthy, s(1));
        }
        assert_eq!(breaker.circuit(s(1)), Circuit::Closed, "nine samples are below the minimum");
        report(&mut breaker, Health::Unhealthy, s(1));
        assert!(matches!(breaker.circuit(s(1)), Circuit::Open { .. }));
    }

    #[test]
    fn opens_on_the_ratio_once_there_are_enough_samples() {
        let mut breaker = breaker();
        for _ in 0..5 {
            report(&mut breaker, Health::Healthy, s(1));
        }
        for _ in 0..4 {
            report(&mut breaker, Health::Unhealthy, s(1));
        }
        assert_eq!(breaker.circuit(s(1)), Circuit::Closed);
        report(&mut breaker, Health::Unhealthy, s(1));
        assert!(matches!(breaker.circuit(s(1)), Circuit::Open { .. }), "5 of 10 is the ratio");
    }

    #[test]
    fn a_window_that_is_over_counts_no_more_but_the_run_goes_on() {
        let mut breaker = breaker();
        for _ in 0..4 {
            report(&mut breaker, Health::Unhealthy, s(1));
        }
        assert_eq!(breaker.circuit(s(61)), Circuit::Closed);
        report(&mut breaker, Health::Unhealthy, s(61));
        assert!(matches!(breaker.circuit(s(61)), Circuit::Open { .. }));
    }

    #[test]
    fn an_open_circuit_admits_nothing_until_it_has_cooled_down() {
        let mut breaker = opened();
        assert_eq!(breaker.admit(s(30)), None);
        assert_eq!(breaker.circuit(s(31)), Circuit::HalfOpen { probe_out: false });
    }

    #[test]
    fn half_open_admits_a_single_probe() {
        let mut breaker = opened();
        assert!(breaker.admit(s(31)).is_some());
        assert_eq!(breaker.admit(s(31)), None);
        assert_eq!(breaker.circuit(s(900)), Circuit::HalfOpen { probe_out: true });
    }

    #[test]
    fn a_probe_that_succeeds_closes_and_one_that_fails_opens_again() {
        let mut breaker = opened();
        let probe = breaker.admit(s(31)).unwrap();
        breaker.record(probe, Health::Unhealthy, s(40));
        assert_eq!(breaker.circuit(s(40)), Circuit::Open { remaining: s(30) });
        let probe = breaker.admit(s(70)).unwrap();
        breaker.record(probe, Health::Healthy, s(71));
        assert_eq!(breaker.circuit(s(71)), Circuit::Closed);
        assert!(breaker.is_idle(s(71)), "it starts afresh");
    }

    #[test]
    fn a_probe_that_tells_nothing_makes_room_for_another() {
        let mut breaker = opened();
        let probe = breaker.admit(s(31)).unwrap();
        breaker.record(probe, Health::Unknown, s(32));
        assert!(breaker.admit(s(32)).is_some());
    }

    #[test]
    fn late_results_of_sends_from_before_change_nothing() {
        let mut breaker = breaker();
        let [first, second, third] = std::array::from_fn(|_| breaker.admit(s(0)).unwrap());
        for _ in 0..5 {
            report(&mut breaker, Health::Unhealthy, s(1));
        }
        breaker.record(first, Health::Healthy, s(2));
        assert!(matches!(breaker.circuit(s(2)), Circuit::Open { .. }));
        let probe = breaker.admit(s(31)).unwrap();
        breaker.record(second, Health::Healthy, s(32));
        breaker.record(third, Health::Unhealthy, s(32));
        assert_eq!(breaker.circuit(s(32)), Circuit::HalfOpen { probe_out: true });
        breaker.record(probe, Health::Healthy, s(33));
        assert_eq!(breaker.circuit(s(33)), Circuit::Closed);
    }

    #[test]
    fn what_is_remembered_is_forgotten_in_the_end() {
        let mut failed_once = breaker();
        report(&mut failed_once, Health::Unhealthy, s(1));
        assert!(!failed_once.is_idle(s(3_600)));
        assert!(failed_once.is_idle(s(3_601)));
        let mut opened = opened();
        assert!(!opened.is_idle(s(30)), "an open circuit is never forgotten");
        assert!(opened.is_idle(s(3_601)), "half-open, and nothing was due for an hour");
        let mut probing = self::opened();
        probing.admit(s(31)).unwrap();
        assert!(!probing.is_idle(s(10_000)), "its probe is still out");
    }

    #[test]
    fn a_policy_without_evidence_is_refused() {
        assert_eq!(BreakerPolicy::new(s(0), 1, 1, 1, s(1)), Err(BreakerPolicyError::Zero));
        assert_eq!(BreakerPolicy::new(s(1), 1, 0, 1, s(1)), Err(BreakerPolicyError::Ratio(0)));
        assert_eq!(BreakerPolicy::new(s(1), 1, 10_001, 1, s(1)), Err(BreakerPolicyError::Ratio(10_001)));
        assert_eq!(BreakerPolicy::new(s(1), 0, 1, 1, s(1)), Err(BreakerPolicyError::NoEvidence));
    }

    proptest! {
        /// Whatever is reported in whatever order, at most one send is out in half-open and an open circuit heals.
        #[test]
        fn half_open_never_has_two_probes_out(steps in proptest::collection::vec((0_u8..4, 0_u64..20), 1..300)) {
            let mut breaker = breaker();
            let mut out: Vec<(Permit, bool)> = Vec::new();
            let mut now = s(0);
            for (step, pause) in steps {
                now += s(pause);
                let half_open = matches!(breaker.circuit(now), Circuit::HalfOpen { .. });
                match (step, out.pop()) {
                    (0, popped) => {
                        out.extend(popped);
                        if let Some(permit) = breaker.admit(now) {
                            out.push((permit, half_open));
                        }
                    }
                    (_, Some((permit, _))) => {
                        let health = [Health::Healthy, Health::Unhealthy, Health::Unknown][usize::from(step) - 1];
                        breaker.record(permit, health, now);
                    }
                    (_, None) => {}
                }
                if matches!(breaker.circuit(now), Circuit::HalfOpen { .. }) {
                    let since = breaker.since();
                    let probes = out.iter().filter(|(permit, probe)| *probe && permit.admitted_at >= since).count();
                    prop_assert!(probes <= 1, "{probes} probes out");
                }
            }
            if let Circuit::Open { remaining } = breaker.circuit(now) {
                prop_assert!(remaining <= s(30));
                prop_assert_eq!(breaker.circuit(now + remaining), Circuit::HalfOpen { probe_out: false });
            }
        }
    }
}
