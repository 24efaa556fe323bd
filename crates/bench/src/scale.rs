//! The scale of a run: a factor for numbers of events and durations, so that a trial is short.

use std::time::Duration;

/// Fewest events of a part.
const COUNT_MIN: usize = 100;
const DURATION_MIN: Duration = Duration::from_secs(1);

/// A factor for the numbers of events and the durations of a run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale(pub(crate) f64);

impl Scale {
    /// Returns a scaled number of events.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float casts saturate, and a scaled count is small and positive"
    )]
    pub(crate) fn count(self, count: usize) -> usize {
        ((count as f64 * self.0) as usize).max(COUNT_MIN)
    }

    /// Returns a scaled duration.
    pub(crate) fn duration(self, duration: Duration) -> Duration {
        duration.mul_f64(self.0).max(DURATION_MIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_has_a_lower_limit() {
        assert_eq!(Scale(0.1).count(200_000), 20_000);
        assert_eq!(Scale(0.0).count(200_000), COUNT_MIN);
        assert_eq!(Scale(0.5).duration(Duration::from_secs(20)), Duration::from_secs(10));
        assert_eq!(Scale(0.0).duration(Duration::from_secs(20)), DURATION_MIN);
    }
}
