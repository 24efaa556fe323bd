//! Throttles: how many messages per second a destination or an application gets.
//!
//! A throttle is a token bucket that holds the tokens of one second. Its whole state is one time, `spent_until`: the bucket is
//! full again at that time. Claims spend tokens in the transaction that grants the leases, so the bound holds for all workers
//! together.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::Timestamp;

/// Largest rate of a throttle.
const PER_SECOND_MAX: u32 = 1_000_000;
/// The time in which an empty bucket becomes full.
const REFILL: Duration = Duration::from_secs(1);
/// How far apart the times of two callers may be. A caller reads its time, and may then wait for another one that has a later
/// time and empties the bucket.
const CALLERS_APART_MAX: Duration = Duration::from_secs(10);

/// A limit in messages per second.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Throttle(NonZeroU32);

/// A rate outside the limits of a throttle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a throttle must be 1 to {PER_SECOND_MAX} messages per second, got {0}")]
pub struct InvalidThrottle(pub i64);

impl Throttle {
    /// Validates a rate.
    pub fn new(per_second: i64) -> Result<Self, InvalidThrottle> {
        let rate = u32::try_from(per_second).ok().filter(|rate| *rate <= PER_SECOND_MAX);
        rate.and_then(NonZeroU32::new).map(Self).ok_or(InvalidThrottle(per_second))
    }

    /// The number of messages per second.
    pub const fn per_second(self) -> u32 {
        self.0.get()
    }

    /// Returns how many messages may be sent now: at most those of one second.
    pub fn available(self, spent_until: Option<Timestamp>, now: Timestamp) -> usize {
        let wait =
            forget_future(spent_until, now).map_or(Duration::ZERO, |full_at| full_at.since(now)).min(REFILL);
        let filled_micros = (REFILL - wait).as_micros();
        let tokens = filled_micros * u128::from(self.per_second()) / REFILL.as_micros();
        usize::try_from(tokens).unwrap_or(usize::MAX)
    }

    /// Returns the new `spent_until` after `count` messages. The caller sends no more than are available.
    pub fn spend(self, spent_until: Option<Timestamp>, now: Timestamp, count: usize) -> Timestamp {
        let start = forget_future(spent_until, now).unwrap_or(now).max(now);
        let latest = now.after(REFILL).max(start);
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        // Rounded up, so that no token is spent twice.
        let micros = count.saturating_mul(1_000_000).div_ceil(u64::from(self.per_second()));
        start.after(Duration::from_micros(micros)).min(latest)
    }

    /// Returns when the next message may be sent: now, if a token is available.
    pub fn next_at(self, spent_until: Option<Timestamp>, now: Timestamp) -> Timestamp {
        if self.available(spent_until, now) > 0 {
            return now;
        }
        let token = Duration::from_micros(1_000_000_u64.div_ceil(u64::from(self.per_second())));
        let full_at = forget_future(spent_until, now).unwrap_or(now);
        full_at.before(REFILL).after(token).max(now)
    }
}

/// Forgets a time that is further ahead than an empty bucket and a caller with a later time explain: it was written before the
/// clock stepped back. The bucket is full then. An empty one would stay empty until the clock has caught up, because only a message
/// changes the time.
fn forget_future(spent_until: Option<Timestamp>, now: Timestamp) -> Option<Timestamp> {
    spent_until.filter(|full_at| *full_at <= now.after(REFILL + CALLERS_APART_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOON: Timestamp = Timestamp::from_secs(1_700_000_000);

    #[test]
    fn a_second_refills_the_bucket() {
        let throttle = Throttle::new(10).unwrap();
        assert_eq!(throttle.available(None, NOON), 10);
        let spent = throttle.spend(None, NOON, 10);
        assert_eq!(throttle.available(Some(spent), NOON), 0);
        assert_eq!(throttle.next_at(Some(spent), NOON), NOON.after(Duration::from_millis(100)));
        assert_eq!(throttle.available(Some(spent), NOON.after(Duration::from_millis(500))), 5);
        assert_eq!(throttle.available(Some(spent), NOON.after(Duration::from_secs(60))), 10);
    }

    #[test]
    fn a_clock_that_stepped_back_leaves_a_bucket_that_is_full_within_a_second() {
        let throttle = Throttle::new(3).unwrap();
        let spent = throttle.spend(None, NOON.after(Duration::from_secs(3_600)), 3);
        assert_eq!(throttle.available(Some(spent), NOON), 3);
        assert_eq!(throttle.next_at(Some(spent), NOON), NOON);
        let spent = throttle.spend(Some(spent), NOON, 3);
        assert_eq!((spent, throttle.available(Some(spent), NOON)), (NOON.after(REFILL), 0));
    }

    #[test]
    fn a_caller_with_an_earlier_time_finds_the_bucket_empty() {
        let throttle = Throttle::new(3).unwrap();
        let later = NOON.after(Duration::from_millis(5));
        let spent = Some(throttle.spend(None, later, 3));
        assert_eq!(throttle.available(spent, NOON), 0);
        assert_eq!(Some(throttle.spend(spent, NOON, 0)), spent);
        assert!(throttle.next_at(spent, NOON) > later);
    }

    #[test]
    fn rates_have_limits() {
        for rate in [i64::MIN, -1, 0, 1_000_001, i64::MAX] {
            assert_eq!(Throttle::new(rate), Err(InvalidThrottle(rate)));
        }
        assert_eq!(Throttle::new(1).unwrap().per_second(), 1);
    }

    proptest! {
        #[test]
        fn no_interval_gets_more_than_its_seconds_and_one_allow(
            rate in 1_i64..500, steps in proptest::collection::vec((0_u64..400_000, 1_usize..600), 1..60),
        ) {
            let throttle = Throttle::new(rate).unwrap();
            let (mut now, mut spent, mut sent) = (NOON, None, 0_u64);
            for (pause_micros, wanted) in steps {
                now = now.after(Duration::from_micros(pause_micros));
                let count = throttle.available(spent, now).min(wanted);
                spent = Some(throttle.spend(spent, now, count));
                sent += u64::try_from(count).unwrap();
                let seconds = now.since(NOON).as_secs_f64() + 1.0;
                prop_assert!(sent as f64 <= rate as f64 * seconds + 1e-6, "{sent} in {seconds} s at {rate}");
            }
        }

        #[test]
        fn a_token_is_there_when_it_was_promised(rate in 1_i64..2_000, spent in 0_usize..2_000) {
            let throttle = Throttle::new(rate).unwrap();
            let spent = Some(throttle.spend(None, NOON, throttle.available(None, NOON).min(spent)));
            prop_assert!(throttle.available(spent, throttle.next_at(spent, NOON)) > 0);
        }
    }
}
