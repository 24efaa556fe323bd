//! The size of a piece of a payload: as large as the link transfers in a few milliseconds.

use std::time::Duration;

/// The smallest piece, which is the first one of each payload. It shows the time of a call on this link. It crosses a link of
/// 6 MB/s in little more than a millisecond.
const BYTES_MIN: usize = 8 << 10;
/// The lower and the upper limit of the bytes that a later piece has beyond those.
const EXTRA_BYTES_MIN: usize = 4 << 10;
const EXTRA_BYTES_MAX: usize = 504 << 10;
/// How much longer than the smallest piece a piece may take. Over a link with a long delay, it is a quarter of that delay if
/// that is longer: few large pieces then keep the link busier than many small ones.
const EXTRA_TIME_MAX: Duration = Duration::from_millis(1);

/// The size of the next piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PieceSize {
    extra_bytes: usize,
    /// The time of the smallest pieces, smoothed.
    smallest_took: Option<Duration>,
}

impl Default for PieceSize {
    fn default() -> Self {
        Self { extra_bytes: EXTRA_BYTES_MIN, smallest_took: None }
    }
}

impl PieceSize {
    /// Returns the size of the next piece.
    pub(super) fn bytes(self, is_first: bool) -> usize {
        if is_first { BYTES_MIN } else { BYTES_MIN + self.extra_bytes }
    }

    /// Learns from the time that a piece of this size took.
    pub(super) fn record(&mut self, bytes: usize, took: Duration) {
        if bytes == BYTES_MIN {
            self.smallest_took = Some(self.smallest_took.map_or(took, |before| (before * 3 + took) / 4));
            return;
        }
        let smallest_took = self.smallest_took.unwrap_or(took);
        let extra_time_max = EXTRA_TIME_MAX.max(smallest_took / 4);
        let extra_time = took.saturating_sub(smallest_took);
        if extra_time > extra_time_max {
            self.record_failure();
        } else if extra_time < extra_time_max / 2 {
            self.extra_bytes = (self.extra_bytes * 2).min(EXTRA_BYTES_MAX);
        }
    }

    /// Makes the next piece smaller, because one took too long or did not arrive.
    pub(super) fn record_failure(&mut self) {
        self.extra_bytes = (self.extra_bytes / 2).max(EXTRA_BYTES_MIN);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn transfer(bytes: usize, bytes_per_second: f64, round_trip: Duration) -> Duration {
        round_trip + Duration::from_secs_f64(bytes as f64 / bytes_per_second)
    }

    /// Reads payloads of a few pieces each over a link, until the size is constant, and returns it.
    fn settled(bytes_per_second: f64, round_trip_ms: u64) -> usize {
        let mut size = PieceSize::default();
        for piece in 0..60 {
            let bytes = size.bytes(piece % 6 == 0);
            size.record(bytes, transfer(bytes, bytes_per_second, Duration::from_millis(round_trip_ms)));
        }
        size.bytes(false)
    }

    #[test]
    fn pieces_are_small_on_a_slow_link_and_large_on_a_fast_or_a_long_one() {
        assert_eq!(settled(6e6, 0), 12 << 10);
        assert_eq!(settled(1e5, 1), 12 << 10);
        assert_eq!(settled(1e9, 0), 512 << 10);
        assert_eq!(settled(100e6, 50), 512 << 10);
    }

    #[test]
    fn pieces_shrink_while_they_do_not_arrive() {
        let mut size = PieceSize::default();
        for _ in 0..10 {
            size.record(size.bytes(false), Duration::from_micros(100));
        }
        assert_eq!(size.bytes(false), 512 << 10);
        for _ in 0..10 {
            size.record_failure();
        }
        assert_eq!((size.bytes(false), size.bytes(true)), (12 << 10, 8 << 10));
    }

    proptest! {
        /// A statement beside the pieces waits for a few milliseconds on a link of at least 6 MB/s without much delay.
        #[test]
        fn a_settled_piece_takes_little_longer_than_the_smallest(
            megabytes_per_second in 6..2_000_u32,
            round_trip_ms in 0..8_u64,
        ) {
            let bytes_per_second = f64::from(megabytes_per_second) * 1e6;
            let bytes = settled(bytes_per_second, round_trip_ms);
            let took = transfer(bytes, bytes_per_second, Duration::ZERO);
            let smallest = transfer(BYTES_MIN, bytes_per_second, Duration::ZERO);
            prop_assert!(took <= smallest + EXTRA_TIME_MAX * 2, "{bytes} bytes take {took:?}");
        }
    }
}
