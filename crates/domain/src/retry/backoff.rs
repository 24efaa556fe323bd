//! Backoff arithmetic: exponential growth and jitter. [`RetryPolicy`](super::RetryPolicy) combines and clamps them.

use std::time::Duration;

use super::policy::JITTER_BPS_MAX;

/// A uniformly distributed random number, drawn by the caller. Equal draws give equal delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RandomDraw(pub u64);

/// Lower bound of every delay.
pub(super) const DELAY_MIN: Duration = Duration::from_secs(1);

/// Value at which growth saturates: far beyond any `max_backoff`, yet small enough that the jitter arithmetic fits
/// 128 bits.
const DELAY_MICROS_SATURATED: u64 = 1 << 60;

/// Returns `base · 2ⁿ`, saturating for large `n`.
pub(super) fn exponential(base: Duration, n: u32) -> Duration {
    let micros = base.as_micros().min(u128::from(DELAY_MICROS_SATURATED));
    let doubled =
        micros.checked_shl(n).filter(|doubled| n < 64 && *doubled <= u128::from(DELAY_MICROS_SATURATED));
    Duration::from_micros(
        doubled.and_then(|micros| u64::try_from(micros).ok()).unwrap_or(DELAY_MICROS_SATURATED),
    )
}

/// Picks a delay from the range `delay · (1 ± jitter_bps / 10000)`, both ends included.
pub(super) fn jittered(delay: Duration, jitter_bps: u32, draw: RandomDraw) -> Duration {
    let micros = delay.as_micros().min(u128::from(DELAY_MICROS_SATURATED));
    let spread = micros * u128::from(jitter_bps) / u128::from(JITTER_BPS_MAX);
    // Scales the draw from 64 bits down to 0..=2·spread.
    let offset = ((2 * spread + 1) * u128::from(draw.0)) >> 64;
    Duration::from_micros(u64::try_from(micros - spread + offset).unwrap_or(u64::MAX))
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
    fn lowest_and_highest_draws_give_the_ends_of_the_jitter_range() {
        let delay = Duration::from_secs(60);
        assert_eq!(jittered(delay, 2_000, RandomDraw(0)), Duration::from_secs(48));
        assert_eq!(jittered(delay, 2_000, RandomDraw(u64::MAX)), Duration::from_secs(72));
        assert_eq!(jittered(delay, 10_000, RandomDraw(0)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn jittered_delay_stays_in_its_range_for_any_delay(
            micros in 0..=u64::MAX, bps in 0_u32..=JITTER_BPS_MAX, draw in any::<u64>()
        ) {
            let delay = Duration::from_micros(micros.min(DELAY_MICROS_SATURATED));
            let spread = delay.as_micros() * u128::from(bps) / 10_000;
            let jittered = jittered(delay, bps, RandomDraw(draw)).as_micros();
            prop_assert!(jittered >= delay.as_micros() - spread);
            prop_assert!(jittered <= delay.as_micros() + spread);
        }
    }
}
