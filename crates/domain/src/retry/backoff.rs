//! Backoff arithmetic: exponential growth and jitter. [`RetryPolicy`](super::RetryPolicy) combines them.

use std::ops::RangeInclusive;
use std::time::Duration;

use super::policy::JITTER_BPS_MAX;

/// A uniformly distributed random number, drawn by the caller. Equal draws give equal delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomDraw(pub u64);

/// Value at which growth saturates: far beyond any `max_backoff`, yet small enough that the jitter arithmetic fits
/// 128 bits.
const DELAY_MICROS_SATURATED: u64 = 1 << 60;

/// Returns `base · 2ⁿ`, saturating for large `n`.
pub(super) fn exponential(base: Duration, n: u32) -> Duration {
    let micros = base.as_micros().min(u128::from(DELAY_MICROS_SATURATED));
    let doubled =
        micros.checked_shl(n).filter(|doubled| n < 64 && *doubled <= u128::from(DELAY_MICROS_SATURATED));
    doubled.map_or(Duration::from_micros(DELAY_MICROS_SATURATED), micros_duration)
}

/// Returns the window `delay · (1 ± jitter_bps / 10000)`, cut to the bounds. A delay below the bounds becomes the lower
/// bound, one above them the upper bound.
pub(super) fn jitter_window(
    delay: Duration,
    jitter_bps: u32,
    bounds: &RangeInclusive<Duration>,
) -> RangeInclusive<Duration> {
    let micros = delay.as_micros().min(u128::from(DELAY_MICROS_SATURATED));
    let spread = micros * u128::from(jitter_bps) / u128::from(JITTER_BPS_MAX);
    let [low, high] = [micros - spread, micros + spread]
        .map(|end| micros_duration(end).clamp(*bounds.start(), *bounds.end()));
    low..=high
}

/// Picks a delay from a window, both ends included. Every microsecond of the window is equally likely.
pub(super) fn pick(window: &RangeInclusive<Duration>, draw: RandomDraw) -> Duration {
    let [low, high] = [window.start(), window.end()].map(Duration::as_micros);
    // Scales the draw from 64 bits down to 0..=high - low.
    let offset = ((high.saturating_sub(low) + 1) * u128::from(draw.0)) >> 64;
    micros_duration(low + offset)
}

fn micros_duration(micros: u128) -> Duration {
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn doubling_saturates_instead_of_overflowing() {
        let base = Duration::from_secs(60);
        assert_eq!(exponential(base, 0), base);
        assert_eq!(exponential(base, 4), Duration::from_secs(960));
        for n in [35, 63, 64, 127, 128, u32::MAX] {
            assert_eq!(exponential(base, n), Duration::from_micros(DELAY_MICROS_SATURATED), "{n}");
        }
        assert_eq!(exponential(Duration::MAX, 1), Duration::from_micros(DELAY_MICROS_SATURATED));
    }

    #[test]
    fn lowest_and_highest_draws_give_the_ends_of_the_window() {
        let seconds = |low, high| Duration::from_secs(low)..=Duration::from_secs(high);
        for (bps, bounds, window) in [
            (2_000, seconds(30, 3_600), seconds(48, 72)),
            (10_000, seconds(30, 3_600), seconds(30, 120)),
            (10_000, seconds(0, 60), seconds(0, 60)),
            (0, seconds(30, 3_600), seconds(60, 60)),
            (2_000, seconds(100, 3_600), seconds(100, 100)),
        ] {
            let cut = jitter_window(Duration::from_secs(60), bps, &bounds);
            assert_eq!(cut, window, "{bps} bps within {bounds:?}");
            assert_eq!(pick(&cut, RandomDraw(0)), *window.start());
            assert_eq!(pick(&cut, RandomDraw(u64::MAX)), *window.end());
        }
    }

    #[test]
    fn draws_are_spread_evenly_over_a_window_that_is_cut() {
        let window = jitter_window(
            Duration::from_secs(60),
            10_000,
            &(Duration::from_secs(30)..=Duration::from_secs(60)),
        );
        for quarter in 0..=4 {
            let draw = RandomDraw((u64::MAX / 4) * quarter);
            let seconds = pick(&window, draw).as_secs_f64();
            assert!((seconds - (30.0 + 7.5 * quarter as f64)).abs() < 0.001, "{quarter}: {seconds}");
        }
    }

    proptest! {
        #[test]
        fn jittered_delay_stays_in_its_window_for_any_delay(
            micros in 0..=u64::MAX, bps in 0_u32..=JITTER_BPS_MAX, draw in any::<u64>()
        ) {
            let delay = Duration::from_micros(micros.min(DELAY_MICROS_SATURATED));
            let spread = delay.as_micros() * u128::from(bps) / 10_000;
            let window = jitter_window(delay, bps, &(Duration::ZERO..=Duration::MAX));
            let jittered = pick(&window, RandomDraw(draw)).as_micros();
            prop_assert!(jittered >= delay.as_micros() - spread);
            prop_assert!(jittered <= delay.as_micros() + spread);
        }
    }
}
