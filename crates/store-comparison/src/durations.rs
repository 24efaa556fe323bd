//! Durations for which small differences between the clocks do not matter.
//!
//! Time advances by whole minutes, and every lifetime is a number of minutes and a half. So everything expires half a
//! minute away from any time at which the stores are compared. The real time that a sequence takes is far shorter. The
//! one exception, an instant, is so short that even a whole sequence of instants adds up to less.

use std::time::Duration;

use posthaste_domain::{RetryPolicy, RetryPolicySpec, Strategy};

/// The shortest advance of time.
const INSTANT: Duration = Duration::from_millis(50);
const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Returns a number of minutes and a half.
const fn minutes_and_a_half(minutes: u64) -> Duration {
    Duration::from_secs(minutes * MINUTE + MINUTE / 2)
}

/// Amounts by which an operation advances time.
pub(crate) const ADVANCES: [Duration; 6] = [
    INSTANT,
    Duration::from_secs(MINUTE),
    Duration::from_secs(3 * MINUTE),
    Duration::from_secs(15 * MINUTE),
    Duration::from_secs(2 * HOUR),
    Duration::from_secs(3 * DAY),
];

/// Lengths of leases.
pub(crate) const LEASE_DURATIONS: [Duration; 3] =
    [minutes_and_a_half(1), minutes_and_a_half(5), minutes_and_a_half(60)];

/// Values of `Retry-After`.
pub(crate) const RETRY_AFTER_DELAYS: [Duration; 3] =
    [minutes_and_a_half(0), minutes_and_a_half(4), minutes_and_a_half(45)];

/// Lifetimes of idempotency keys.
pub(crate) const KEY_LIFETIMES: [Duration; 2] = [minutes_and_a_half(10), minutes_and_a_half(24 * 60)];

/// Lifetimes of circuit reports.
pub(crate) const REPORT_LIFETIMES: [Duration; 2] = [minutes_and_a_half(2), minutes_and_a_half(60)];

/// Times since reported circuits opened, and until their next probes.
pub(crate) const CIRCUIT_TIMES: [Duration; 2] = [minutes_and_a_half(0), minutes_and_a_half(12)];

/// Lengths of operators' pauses; `None` lasts until a resume.
pub(crate) const PAUSES: [Option<Duration>; 3] =
    [None, Some(minutes_and_a_half(4)), Some(minutes_and_a_half(60))];

/// How far back claims list resumed destinations.
pub(crate) const RESUMED_WITHIN: Duration = minutes_and_a_half(1);

/// Retention periods; `None` keeps everything.
pub(crate) const RETENTIONS: [Option<Duration>; 4] =
    [Some(minutes_and_a_half(0)), Some(minutes_and_a_half(10)), Some(minutes_and_a_half(24 * 60)), None];

/// Retention periods of dead letters.
pub(crate) const DEAD_LETTER_RETENTIONS: [Duration; 2] =
    [minutes_and_a_half(10), minutes_and_a_half(24 * 60)];

/// Times after which events expire.
pub(crate) const EXPIRIES: [Duration; 3] =
    [minutes_and_a_half(2), minutes_and_a_half(20), minutes_and_a_half(24 * 60)];

/// Lifetimes of kept answers.
pub(crate) const ANSWER_LIFETIMES: [Duration; 2] = [minutes_and_a_half(10), minutes_and_a_half(24 * 60)];

/// Times until the first attempt of a message.
pub(crate) const DELIVERY_DELAYS: [Duration; 2] = [minutes_and_a_half(2), minutes_and_a_half(60)];

/// Grace periods of rotated keys. A key that retires at once has retired at every later time of both clocks.
pub(crate) const KEY_GRACES: [Duration; 3] = [minutes_and_a_half(60), minutes_and_a_half(2), Duration::ZERO];

/// Times in the past that filters of lists name.
pub(crate) const PAST_TIMES: [Duration; 2] = [minutes_and_a_half(2), minutes_and_a_half(60)];

/// Times in the past that filters of attempts name. Attempts start 40 seconds before a minute.
pub(crate) const ATTEMPT_FILTER_TIMES: [Duration; 2] =
    [Duration::from_secs(2 * MINUTE + 10), Duration::from_secs(10 * MINUTE + 10)];

/// Periods of background operations, as their beginning and their end before now.
pub(crate) const OPERATION_RANGES: [(Duration, Duration); 3] = [
    (minutes_and_a_half(13 * 24 * 60), Duration::ZERO),
    (minutes_and_a_half(60), Duration::ZERO),
    (minutes_and_a_half(13 * 24 * 60), minutes_and_a_half(10)),
];

/// Time between the start of an operation and the next call, so that no message is published, and no event fails, at the end of
/// its period.
pub(crate) const AFTER_START: Duration = Duration::from_secs(MINUTE);

/// How long a receiver fails before its endpoint is disabled.
const ENDPOINTS_DISABLED_AFTER: Duration = minutes_and_a_half(60);

/// How long destinations without events are kept.
pub(crate) const UNUSED_DESTINATIONS_KEPT_FOR: Duration = minutes_and_a_half(24 * 60);

/// Times between the end of an attempt and its settlement. This only affects the attempt's timestamps; nothing expires by it.
pub(crate) const ENDED_AGO: [Duration; 2] = [Duration::ZERO, Duration::from_secs(5 * MINUTE)];

/// Times since a worker started, in its reports. They differ by more than the tolerance, so that workers have an order.
pub(crate) const RUNNING_TIMES: [Duration; 3] =
    [Duration::ZERO, minutes_and_a_half(10), minutes_and_a_half(24 * 60)];

/// Greatest difference at which two timestamps count as equal. Together with a sequence of instants it stays below half a
/// minute, and it is longer than any sequence takes.
pub(crate) const TOLERANCE: Duration = Duration::from_secs(20);

/// Delays of the retry schedule.
const RETRY_DELAYS: [Duration; 2] = [minutes_and_a_half(1), minutes_and_a_half(10)];

/// Returns the retry policy of all settlements: exact delays, and every signal of receivers that a store has to write.
pub(crate) fn retry_policy() -> RetryPolicy {
    let spec = RetryPolicySpec {
        max_backoff: RETRY_AFTER_DELAYS.into_iter().max(),
        gone_is_final: Some(true),
        honours_retry_after: Some(true),
        disable_endpoints_after: Some(ENDPOINTS_DISABLED_AFTER),
        ..RetryPolicySpec::for_strategy(Strategy::Schedule { steps: RETRY_DELAYS.to_vec() })
    };
    RetryPolicy::new(spec).expect("a rising schedule above the floor is a valid policy")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::OPERATIONS_MAX;

    #[test]
    fn everything_expires_half_a_minute_away_from_every_comparison() {
        let lifetimes = LEASE_DURATIONS
            .into_iter()
            .chain(RETRY_AFTER_DELAYS)
            .chain(KEY_LIFETIMES)
            .chain(REPORT_LIFETIMES)
            .chain(DEAD_LETTER_RETENTIONS)
            .chain(CIRCUIT_TIMES)
            .chain(PAUSES.into_iter().flatten())
            .chain([RESUMED_WITHIN])
            .chain(EXPIRIES)
            .chain(ANSWER_LIFETIMES)
            .chain(DELIVERY_DELAYS)
            .chain(KEY_GRACES.into_iter().filter(|grace| !grace.is_zero()))
            .chain(PAST_TIMES)
            .chain(OPERATION_RANGES.into_iter().map(|(since, _)| since))
            .chain([UNUSED_DESTINATIONS_KEPT_FOR, ENDPOINTS_DISABLED_AFTER])
            .chain(RETRY_DELAYS);
        for lifetime in lifetimes.chain(RETENTIONS.into_iter().flatten()) {
            assert_eq!(lifetime.as_millis() % 60_000, 30_000, "{lifetime:?}");
        }
        for advance in ADVANCES.into_iter().filter(|advance| *advance != INSTANT) {
            assert_eq!(advance.as_millis() % 60_000, 0, "{advance:?}");
        }
        let instants = INSTANT * u32::try_from(OPERATIONS_MAX).unwrap();
        assert!(TOLERANCE + instants < Duration::from_secs(30), "{instants:?}");
    }
}
