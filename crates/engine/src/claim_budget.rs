//! Limits the payload bytes of one claim, by how fast the store answers.
//!
//! The payloads of a claim cross the link to the store within the time limit of one call. On a slow link a large claim
//! would never be answered, nor its repetition. So a claim that got no answer, or a late one, halves the limit of the next;
//! a fast answer doubles it. The store always grants one event, so even the lowest limit makes progress.

use std::time::Duration;

/// Bytes of the first claim. A worker on a slow link finds its limit soon, one on a fast link after three more claims.
const BYTES_START: usize = 1 << 20;
/// Upper limit.
const BYTES_MAX: usize = 8 << 20;
/// Lower limit. Dozens of small events fit it beside a large one.
const BYTES_MIN: usize = 64 << 10;

/// The payload bytes that the next claim requests at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimBytes(usize);

impl Default for ClaimBytes {
    fn default() -> Self {
        Self(BYTES_START)
    }
}

impl ClaimBytes {
    pub(crate) fn limit(self) -> usize {
        self.0
    }

    /// Lowers the limit after a claim that the store did not answer.
    pub(crate) fn record_unanswered(&mut self) {
        self.0 = (self.0 / 2).max(BYTES_MIN);
    }

    /// Adjusts the limit to the time that a claim took. A worker releases the leases of a claim that took a third of their
    /// duration, so half of that is late.
    pub(crate) fn record_answered(&mut self, took: Duration, lease: Duration) {
        if took > lease / 6 {
            self.record_unanswered();
        } else if took < lease / 12 {
            self.0 = (self.0 * 2).min(BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_secs(30);

    /// Claims over a link with this speed until the limit is constant, and returns it. A call ends after 15 seconds.
    fn settled_limit(bytes_per_second: usize) -> usize {
        let mut bytes = ClaimBytes::default();
        for _ in 0..100 {
            let took = Duration::from_secs_f64(bytes.limit() as f64 / bytes_per_second as f64);
            if took > Duration::from_secs(15) {
                bytes.record_unanswered();
            } else {
                bytes.record_answered(took, LEASE);
            }
        }
        bytes.limit()
    }

    #[test]
    fn unanswered_and_late_claims_halve_the_limit_down_to_the_lowest() {
        let mut bytes = ClaimBytes::default();
        bytes.record_unanswered();
        assert_eq!(bytes.limit(), BYTES_START / 2);
        bytes.record_answered(LEASE / 5, LEASE);
        assert_eq!(bytes.limit(), BYTES_START / 4);
        for _ in 0..50 {
            bytes.record_unanswered();
        }
        assert_eq!(bytes.limit(), BYTES_MIN);
    }

    #[test]
    fn fast_claims_double_the_limit_up_to_the_highest() {
        let mut bytes = ClaimBytes(BYTES_MIN);
        bytes.record_answered(LEASE / 8, LEASE);
        assert_eq!(bytes.limit(), BYTES_MIN, "neither fast nor late");
        bytes.record_answered(Duration::ZERO, LEASE);
        assert_eq!(bytes.limit(), 2 * BYTES_MIN);
        for _ in 0..50 {
            bytes.record_answered(Duration::ZERO, LEASE);
        }
        assert_eq!(bytes.limit(), BYTES_MAX);
    }

    #[test]
    fn the_limit_settles_where_the_link_transfers_it_in_time() {
        assert_eq!(settled_limit(6_000_000), BYTES_MAX);
        for bytes_per_second in [500_000, 100_000, 30_000] {
            let took = settled_limit(bytes_per_second) as f64 / bytes_per_second as f64;
            assert!(took <= LEASE.as_secs_f64() / 6.0, "{took} s at {bytes_per_second} bytes per second");
        }
    }
}
