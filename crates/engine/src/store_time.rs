//! The store's clock as a worker knows it. Every claim reads it; between two claims the worker's monotonic clock counts on.
//!
//! The host's wall clock has no part in it, so a host whose clock is wrong or jumps still dates its requests right.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::Timestamp;

use crate::clock_skew::ClockSkew;

/// Fraction of the time between two readings, as its divisor, by which the worker's clock and the store's may drift apart.
const DRIFT_DIVISOR: u32 = 1_000;
/// Largest skew at which an earlier report of a skew is over. It is smaller than [`ClockSkew::TOLERATED`], so that a skew
/// close to that limit is not reported again and again.
const SKEW_OVER: Duration = Duration::from_secs(25);

/// One reading of the store's clock: its time, and the worker's clock when the call began and when it returned.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reading {
    pub(crate) now: Timestamp,
    pub(crate) requested_at: Duration,
    pub(crate) received_at: Duration,
}

/// The time of the store's clock when the worker's clock showed zero: the earliest and the latest that agree with the
/// readings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Origin {
    earliest: Timestamp,
    latest: Timestamp,
    /// The worker's clock at the last reading.
    read_at: Duration,
}

impl Origin {
    /// The store read its clock at an unknown time between the request and the response.
    fn from_reading(reading: Reading) -> Self {
        let Reading { now, requested_at, received_at } = reading;
        Self { earliest: now.before(received_at), latest: now.before(requested_at), read_at: received_at }
    }

    /// Combines this origin with a later one. Both are true unless a clock has jumped; the later one is right then.
    fn refine(self, later: Self) -> Self {
        let drift = later.read_at.saturating_sub(self.read_at) / DRIFT_DIVISOR;
        let earliest = later.earliest.max(self.earliest.before(drift));
        let latest = later.latest.min(self.latest.after(drift));
        if earliest <= latest { Self { earliest, latest, ..later } } else { later }
    }

    /// Returns the time of the store's clock when the worker's clock shows `at`.
    fn time_at(self, at: Duration) -> Timestamp {
        self.earliest.after(self.latest.since(self.earliest) / 2).after(at)
    }
}

/// A change of the skew that the worker logs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkewChange {
    Appeared(ClockSkew),
    Ended(ClockSkew),
}

/// The store's time, and how far the host's clock is from it.
#[derive(Debug, Default)]
pub(crate) struct StoreTime {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    origin: Option<Origin>,
    skew: Option<ClockSkew>,
    /// Whether the worker has reported a skew that is not over.
    is_skew_reported: bool,
}

impl StoreTime {
    /// Takes a reading into account, and compares it with the host's clock. Returns a change of the skew to log.
    pub(crate) fn record(&self, reading: Reading, host: Timestamp) -> Option<SkewChange> {
        let mut state = self.state();
        let latest = Origin::from_reading(reading);
        let origin = state.origin.map_or(latest, |origin| origin.refine(latest));
        let skew = ClockSkew::between(host, origin.time_at(reading.received_at));
        (state.origin, state.skew) = (Some(origin), Some(skew));
        let change = match state.is_skew_reported {
            false if !skew.is_tolerable() => SkewChange::Appeared(skew),
            true if skew.difference <= SKEW_OVER => SkewChange::Ended(skew),
            _ => return None,
        };
        state.is_skew_reported = !state.is_skew_reported;
        Some(change)
    }

    /// Returns the time of the store's clock when the worker's clock shows `at`. None before the first claim.
    pub(crate) fn at(&self, at: Duration) -> Option<Timestamp> {
        self.state().origin.map(|origin| origin.time_at(at))
    }

    /// Returns the difference between the clocks at the last claim. None before the first claim.
    pub(crate) fn skew(&self) -> Option<ClockSkew> {
        self.state().skew
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3_600);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// A reading whose store was at 1,000,000 s when the worker's clock showed zero. The store reads its clock at
    /// `read_at`.
    fn reading(requested_at: u64, read_at: u64, received_at: u64) -> Reading {
        let now = Timestamp::from_secs(1_000_000).after(ms(read_at));
        Reading { now, requested_at: ms(requested_at), received_at: ms(received_at) }
    }

    fn error_at(time: &StoreTime, at: Duration) -> Duration {
        let (known, truth) = (time.at(at).expect("a reading"), Timestamp::from_secs(1_000_000).after(at));
        known.since(truth).max(truth.since(known))
    }

    #[test]
    fn error_is_at_most_half_the_round_trip() {
        for read_at in [0, 50, 99] {
            let time = StoreTime::default();
            time.record(reading(0, read_at, 100), Timestamp::default());
            assert!(error_at(&time, ms(60_000)) <= ms(50));
        }
    }

    #[test]
    fn slow_claim_does_not_spoil_what_a_fast_one_has_shown() {
        let time = StoreTime::default();
        time.record(reading(0, 1, 2), Timestamp::default());
        time.record(reading(1_000, 1_001, 9_000), Timestamp::default());
        assert!(error_at(&time, ms(9_000)) <= ms(11), "{:?}", error_at(&time, ms(9_000)));
    }

    #[test]
    fn store_clock_that_steps_is_followed_at_the_next_claim() {
        let time = StoreTime::default();
        time.record(reading(0, 1, 2), Timestamp::default());
        let stepped = reading(1_000, 1_001, 1_002);
        time.record(Reading { now: stepped.now.before(HOUR), ..stepped }, Timestamp::default());
        let expected = Timestamp::from_secs(1_000_000).before(HOUR).after(ms(1_002));
        let known = time.at(ms(1_002)).unwrap();
        assert!(known.since(expected).max(expected.since(known)) <= ms(1));
    }

    #[test]
    fn skew_is_reported_when_it_appears_and_when_it_is_over() {
        let time = StoreTime::default();
        let host = |ahead: u64| Timestamp::from_secs(1_000_000).after(Duration::from_secs(ahead));
        let report = |ahead| time.record(reading(0, 0, 0), host(ahead));
        assert_eq!(report(30), None);
        assert!(matches!(report(31), Some(SkewChange::Appeared(_))));
        assert_eq!((report(3_600), report(29)), (None, None));
        assert!(matches!(report(25), Some(SkewChange::Ended(_))));
        assert_eq!(report(26), None);
    }
}
