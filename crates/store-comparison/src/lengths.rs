//! Durations that leave no doubt.
//!
//! Time is moved by whole minutes and everything lasts some minutes and a half, so whatever expires does so half a
//! minute away from any moment at which somebody looks. What passes by itself while a sequence runs stays far below
//! that. The one exception, an instant, is too short for a sequence of them to add up to anything.

use std::time::Duration;

use posthaste_domain::{RetryPolicy, RetryPolicySpec, Strategy};

const INSTANT: Duration = Duration::from_millis(50);
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Some minutes and a half.
const fn and_a_half(minutes: u64) -> Duration {
    Duration::from_secs(minutes * MINUTE + MINUTE / 2)
}

/// How far time is moved.
pub(crate) const ADVANCES: [Duration; 6] = [
    INSTANT,
    Duration::from_secs(MINUTE),
    Duration::from_secs(3 * MINUTE),
    Duration::from_secs(15 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(3 * DAY),
];

pub(crate) const LEASES: [Duration; 3] = [and_a_half(1), and_a_half(5), and_a_half(60)];

/// What a `Retry-After` asks for.
pub(crate) const PAUSES: [Duration; 3] = [and_a_half(0), and_a_half(4), and_a_half(45)];

/// How long an idempotency key is remembered.
pub(crate) const KEYS: [Duration; 2] = [and_a_half(10), and_a_half(24 * 60)];

/// How long a report on a circuit stands.
pub(crate) const REPORTS: [Duration; 2] = [and_a_half(2), and_a_half(60)];

/// How long retention keeps things.
pub(crate) const KEEPS: [Option<Duration>; 4] =
    [Some(and_a_half(0)), Some(and_a_half(10)), Some(and_a_half(24 * 60)), None];

/// How long before its settlement an attempt ended. Nothing expires by it, it only dates the attempt.
pub(crate) const ENDED_AGO: [Duration; 2] = [Duration::ZERO, Duration::from_secs(5 * MINUTE)];

/// Shorter than half a minute by more than a sequence of instants; longer than any sequence takes.
pub(crate) const TOLERANCE: Duration = Duration::from_secs(20);

const RETRIES: [Duration; 2] = [and_a_half(1), and_a_half(10)];

pub(crate) fn policy() -> RetryPolicy {
    RetryPolicy::new(RetryPolicySpec::of(Strategy::Schedule { steps: RETRIES.to_vec() }))
        .expect("a rising schedule above the floor is a valid policy")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::OPERATIONS_MAX;

    #[test]
    fn whatever_lasts_ends_half_a_minute_away_from_every_look() {
        let lasting = LEASES.into_iter().chain(PAUSES).chain(KEYS).chain(REPORTS).chain(RETRIES);
        for length in lasting.chain(KEEPS.into_iter().flatten()) {
            assert_eq!(length.as_millis() % 60_000, 30_000, "{length:?}");
        }
        for advance in ADVANCES.into_iter().filter(|advance| *advance != INSTANT) {
            assert_eq!(advance.as_millis() % 60_000, 0, "{advance:?}");
        }
        let instants = INSTANT * u32::try_from(OPERATIONS_MAX).unwrap();
        assert!(TOLERANCE + instants < Duration::from_secs(30), "{instants:?}");
    }
}
