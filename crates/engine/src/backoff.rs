//! Delay between calls of a loop while the store is unavailable.

use std::time::Duration;

const DELAY_MIN: Duration = Duration::from_millis(100);
const DELAY_MAX: Duration = Duration::from_secs(5);

/// Exponential backoff without jitter: doubles from 100 ms to 5 s and never gives up.
#[derive(Debug)]
pub(crate) struct Backoff(Duration);

impl Backoff {
    pub(crate) const fn new() -> Self {
        Self(DELAY_MIN)
    }

    /// Returns the delay before the next call, and doubles the one after it.
    pub(crate) fn next(&mut self) -> Duration {
        let delay = self.0;
        self.0 = (delay * 2).min(DELAY_MAX);
        delay
    }

    /// Starts over after a call that succeeded. Returns true if earlier calls had failed.
    pub(crate) fn reset(&mut self) -> bool {
        std::mem::replace(&mut self.0, DELAY_MIN) != DELAY_MIN
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_the_cap_and_starts_over() {
        let mut backoff = Backoff::new();
        let delays: Vec<u128> = (0..8).map(|_| backoff.next().as_millis()).collect();
        assert_eq!(delays, [100, 200, 400, 800, 1_600, 3_200, 5_000, 5_000]);
        assert!(backoff.reset() && !backoff.reset());
        assert_eq!(backoff.next(), DELAY_MIN);
    }
}
