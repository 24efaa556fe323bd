//! From the number of a retry to a delay: `base · 2ⁿ` or a step, jittered, then clamped.

use std::time::Duration;

use super::policy::JITTER_BPS_MAX;

/// One uniformly random number, drawn by whoever calls; equal rolls give equal delays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Roll(pub u64);

/// No delay is ever shorter.
pub(super) const DELAY_MIN: Duration = Duration::from_secs(1);

/// Far beyond any `max_backoff`, yet small enough that the jitter arithmetic below fits 128 bits.
const DELAY_MICROS_SATURATED: u64 = 1 << 60;

/// `base · 2ⁿ`, saturating, for any n.
pub(super) fn exponential(base: Duration, n: u32) -> Duration {
    let micros = base.as_micros().min(u128::from(DELAY_MICROS_SATURATED));
    let doubled =
        micros.checked_shl(n).filter(|doubled| n < 64 && *doubled <= u128::from(DELAY_MICROS_SATURATED));
    Duration::from_micros(
        doubled.and_then(|micros| u64::try_from(micros).ok()).unwrap_or(DELAY_MICROS_SATURATED),
    )
}

/// A point of the symmetric window `delay · (1 ± jitter_bps / 10000)`, both ends included.
pub(super) fn jittered(delay: Duration, jitter_bps: u32, roll: Roll) -> Duration {
    let micros = delay.as_micros().min(u128::from(DELAY_MICROS_SATURATED));
    let reach = micros * u128::from(jitter_bps) / u128::from(JITTER_BPS_MAX);
    // `roll` scales the width 2·reach + 1 down to 0..=2·reach.
    let offset = ((2 * reach + 1) * u128::from(roll.0)) >> 64;
    Duration::from_micros(u64::try_from(micros - reach + offset).unwrap_or(u64::MAX))
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
    fn the_lowest_and_highest_rolls_reach_the_ends_of_the_window() {
        let delay = Duration::from_secs(60);
        assert_eq!(jittered(delay, 2_000, Roll(0)), Duration::from_secs(48));
        assert_eq!(jittered(delay, 2_000, Roll(u64::MAX)), Duration::from_secs(72));
        assert_eq!(jittered(delay, 10_000, Roll(0)), Duration::ZERO);
    }

    proptest! {
        #[test]
        fn jitter_stays_in_its_window_for_any_delay(
            micros in 0..=u64::MAX, bps in 0_u32..=JITTER_BPS_MAX, roll in any::<u64>()
        ) {
            let delay = Duration::from_micros(micros.min(DELAY_MICROS_SATURATED));
            let reach = delay.as_micros() * u128::from(bps) / 10_000;
            let jittered = jittered(delay, bps, Roll(roll)).as_micros();
            prop_assert!(jittered >= delay.as_micros() - reach);
            prop_assert!(jittered <= delay.as_micros() + reach);
        }
    }
}
