//! Limits the payload bytes of one claim, by how long they take to arrive.
//!
//! Events behind a claim in progress wait for its answer. So a claim whose payloads took long to arrive, or that got no
//! answer, halves the limit of the next; one that used its limit and was fast doubles it. The store always grants one event,
//! so even the lowest limit makes progress.

use std::time::Duration;

/// Bytes of the first claim. A full claim of events of 512 bytes fits it. It crosses a link of 6 MB/s in 44 ms.
const BYTES_START: usize = 256 << 10;
/// Upper limit.
const BYTES_MAX: usize = 8 << 20;
/// Lower limit. Dozens of small events fit it.
const BYTES_MIN: usize = 64 << 10;
/// The time that payloads may take to arrive.
const TRANSFER_MAX: Duration = Duration::from_millis(50);

/// The payload bytes that the next claim requests at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClaimBytes {
    limit: usize,
    /// The time of a claim without the transfer of its payloads: the shortest of the recent claims.
    fixed: Option<Duration>,
}

impl Default for ClaimBytes {
    fn default() -> Self {
        Self { limit: BYTES_START, fixed: None }
    }
}

impl ClaimBytes {
    pub(crate) fn limit(self) -> usize {
        self.limit
    }

    /// Lowers the limit after a claim that the store did not answer.
    pub(crate) fn record_unanswered(&mut self) {
        self.limit = (self.limit / 2).max(BYTES_MIN);
    }

    /// Adjusts the limit to the time that a claim with payloads of this size took. A claim with few bytes says nothing about
    /// the link: another reason made it fast or slow.
    pub(crate) fn record_answered(&mut self, took: Duration, payload_bytes: usize) {
        let fixed = self.fixed.map_or(took, |fixed| fixed.min(took));
        let transfer = took - fixed;
        // The fixed part may grow, but by less than a transfer that takes too long.
        self.fixed = Some(took.min(fixed + fixed / 8 + Duration::from_millis(1)));
        if transfer > TRANSFER_MAX && payload_bytes >= self.limit / 4 {
            self.record_unanswered();
        } else if transfer < TRANSFER_MAX / 4 && payload_bytes >= self.limit / 2 {
            self.limit = (self.limit * 2).min(BYTES_MAX);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// Claims over a link with this speed and round trip, every second claim full, until the limit is constant, and
    /// returns it. A call ends after 15 seconds.
    fn settled_limit(bytes_per_second: usize, round_trip: Duration) -> usize {
        let mut bytes = ClaimBytes::default();
        for claim in 0..200 {
            let payload_bytes = if claim % 2 == 0 { 0 } else { bytes.limit() };
            let took = round_trip + Duration::from_secs_f64(payload_bytes as f64 / bytes_per_second as f64);
            if took > Duration::from_secs(15) {
                bytes.record_unanswered();
            } else {
                bytes.record_answered(took, payload_bytes);
            }
        }
        bytes.limit()
    }

    #[test]
    fn unanswered_and_slow_claims_halve_the_limit_down_to_the_lowest() {
        let mut bytes = ClaimBytes::default();
        bytes.record_answered(ms(1), 0);
        bytes.record_unanswered();
        assert_eq!(bytes.limit(), BYTES_START / 2);
        bytes.record_answered(ms(100), BYTES_START / 2);
        assert_eq!(bytes.limit(), BYTES_MIN);
        bytes.record_unanswered();
        assert_eq!(bytes.limit(), BYTES_MIN);
    }

    #[test]
    fn fast_claims_that_used_the_limit_double_it_up_to_the_highest() {
        let mut bytes = ClaimBytes::default();
        bytes.record_answered(ms(1), 0);
        bytes.record_answered(ms(30), BYTES_START);
        assert_eq!(bytes.limit(), BYTES_START, "neither fast nor slow");
        bytes.record_answered(ms(2), BYTES_START);
        assert_eq!(bytes.limit(), 2 * BYTES_START);
        for _ in 0..50 {
            bytes.record_answered(ms(2), bytes.limit());
        }
        assert_eq!(bytes.limit(), BYTES_MAX);
    }

    #[test]
    fn claims_with_few_bytes_do_not_change_the_limit() {
        let mut bytes = ClaimBytes::default();
        for took in [1, 5_000, 1, 1] {
            bytes.record_answered(ms(took), BYTES_START / 8);
        }
        assert_eq!(bytes.limit(), BYTES_START);
    }

    #[test]
    fn the_limit_settles_where_the_link_transfers_it_in_time_whatever_the_round_trip() {
        for round_trip in [ms(1), ms(200)] {
            assert_eq!(settled_limit(1_000_000_000, round_trip), BYTES_MAX);
            for bytes_per_second in [30_000_000, 6_000_000, 2_000_000] {
                let limit = settled_limit(bytes_per_second, round_trip);
                let took = limit as f64 / bytes_per_second as f64;
                assert!((0.01..0.06).contains(&took), "{took} s at {bytes_per_second} bytes per second");
            }
            assert_eq!(settled_limit(30_000, round_trip), BYTES_MIN);
        }
    }
}
