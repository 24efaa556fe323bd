//! Latency histograms: counts of requests by duration, in buckets that every process and every store shares.

use std::time::Duration;

/// Number of bounded buckets. One more bucket counts the durations above the last bound.
const BOUND_COUNT: usize = 42;
/// Bounds per factor of ten.
const BOUNDS_PER_DECADE: usize = 8;
/// The bounds from 1 to 10, in tenths: each is about a third larger than the one before.
const DECADE_TENTHS: [u64; BOUNDS_PER_DECADE] = [10, 13, 18, 24, 32, 42, 56, 75];

/// The largest duration of each bounded bucket in microseconds, from 1 ms to 130 s.
const BOUNDS_US: [u64; BOUND_COUNT] = bounds_us();

const fn bounds_us() -> [u64; BOUND_COUNT] {
    let mut bounds = [0; BOUND_COUNT];
    let (mut index, mut decade_us) = (0, 100);
    while index < BOUND_COUNT {
        bounds[index] = DECADE_TENTHS[index % BOUNDS_PER_DECADE] * decade_us;
        index += 1;
        if index.is_multiple_of(BOUNDS_PER_DECADE) {
            decade_us *= 10;
        }
    }
    bounds
}

/// Counts of requests by duration. The buckets are fixed, so that histograms of several processes can be added.
///
/// A bucket's upper bound is about a third above its lower bound, so an estimated quantile is at most that far off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LatencyHistogram {
    counts: [u64; Self::BUCKET_COUNT],
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { counts: [0; Self::BUCKET_COUNT] }
    }
}

impl LatencyHistogram {
    /// Number of buckets. The first counts durations up to 1 ms, the last those above 130 s.
    pub const BUCKET_COUNT: usize = BOUND_COUNT + 1;

    /// Returns the histogram with these counts, in the order of the buckets. Missing counts are zero. Counts beyond the last
    /// bucket are added to it.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut histogram = Self::default();
        for (bucket, count) in counts.into_iter().enumerate() {
            let kept = &mut histogram.counts[bucket.min(BOUND_COUNT)];
            *kept = kept.saturating_add(count);
        }
        histogram
    }

    /// Returns the counts in the order of the buckets, without the zeros after the last counted bucket.
    pub fn counts(&self) -> &[u64] {
        let used = self.counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
        &self.counts[..used]
    }

    /// Counts one request of this duration.
    pub fn record(&mut self, duration: Duration) {
        let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < micros);
        self.counts[bucket] = self.counts[bucket].saturating_add(1);
    }

    /// Adds the counts of another histogram.
    pub fn add(&mut self, other: &Self) {
        for (count, added) in self.counts.iter_mut().zip(other.counts) {
            *count = count.saturating_add(added);
        }
    }

    /// Returns the number of requests.
    pub fn count(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Estimates the duration that this share of the requests, in thousandths, did not exceed. Assumes that durations are
    /// spread evenly within a bucket. Returns 130 s for a request in the last bucket, and none without requests.
    pub fn quantile(&self, thousandths: u32) -> Option<Duration> {
        let count = u128::from(self.count());
        if count == 0 {
            return None;
        }
        let rank = (count * u128::from(thousandths.min(1_000))).div_ceil(1_000).max(1);
        let mut below = 0;
        for (bucket, in_bucket) in self.counts.iter().map(|count| u128::from(*count)).enumerate() {
            if below + in_bucket >= rank {
                return Some(interpolate(bucket, rank - below, in_bucket));
            }
            below += in_bucket;
        }
        None
    }
}

/// Estimates the duration of the request with this rank among the requests of one bucket.
fn interpolate(bucket: usize, rank: u128, in_bucket: u128) -> Duration {
    let lower = bucket.checked_sub(1).map_or(0, |below| BOUNDS_US[below]);
    let upper = BOUNDS_US.get(bucket).copied().unwrap_or(lower);
    let above_lower = u128::from(upper - lower) * rank / in_bucket.max(1);
    Duration::from_micros(lower.saturating_add(u64::try_from(above_lower).unwrap_or(u64::MAX)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn histogram(durations_ms: impl IntoIterator<Item = u64>) -> LatencyHistogram {
        let mut histogram = LatencyHistogram::default();
        durations_ms.into_iter().for_each(|ms| histogram.record(Duration::from_millis(ms)));
        histogram
    }

    #[test]
    fn bounds_grow_by_a_third_from_one_millisecond_to_more_than_two_minutes() {
        assert_eq!((BOUNDS_US[0], BOUNDS_US[BOUND_COUNT - 1]), (1_000, 130_000_000));
        for pair in BOUNDS_US.windows(2) {
            let (lower, upper) = (pair[0], pair[1]);
            assert!(upper * 100 > lower * 125 && upper * 100 < lower * 140, "{lower} to {upper}");
        }
    }

    #[test]
    fn a_duration_is_counted_in_the_bucket_whose_upper_bound_it_does_not_exceed() {
        let bucket_of = |micros| {
            let mut histogram = LatencyHistogram::default();
            histogram.record(Duration::from_micros(micros));
            histogram.counts().len() - 1
        };
        assert_eq!([0, 1, 1_000, 1_001, 1_300, 1_301].map(bucket_of), [0, 0, 0, 1, 1, 2]);
        assert_eq!([130_000_000, 130_000_001, u64::MAX].map(bucket_of), [41, 42, 42]);
    }

    #[test]
    fn quantiles_are_within_a_third_of_the_true_value() {
        let spread = histogram(1..=10_000);
        for (thousandths, true_ms) in [(500, 5_000), (950, 9_500), (990, 9_900), (1_000, 10_000)] {
            let estimate = spread.quantile(thousandths).expect("it has requests");
            let error = estimate.abs_diff(Duration::from_millis(true_ms));
            assert!(error < Duration::from_millis(true_ms) / 10, "{thousandths}: {estimate:?}");
        }
        let equal = histogram([200; 100]);
        for thousandths in [0, 500, 999, 1_000] {
            let estimate = equal.quantile(thousandths).expect("it has requests").as_millis();
            assert!((180..=240).contains(&estimate), "{estimate}");
        }
    }

    #[test]
    fn quantiles_of_nothing_and_of_very_slow_requests() {
        assert_eq!(LatencyHistogram::default().quantile(500), None);
        assert_eq!(histogram([3_600_000]).quantile(500), Some(Duration::from_secs(130)));
        assert!(histogram([0]).quantile(990) <= Some(Duration::from_millis(1)));
    }

    #[test]
    fn the_slowest_request_decides_the_quantile_of_a_few() {
        let few = histogram([10, 10, 10, 5_000]);
        assert!(few.quantile(500).is_some_and(|median| median <= Duration::from_millis(10)));
        assert!(few.quantile(990).is_some_and(|slow| slow > Duration::from_millis(4_000)));
    }

    #[test]
    fn histograms_add_up_and_survive_a_round_trip_through_their_counts() {
        let mut sum = histogram([1, 50, 900]);
        sum.add(&histogram([50, 70_000]));
        assert_eq!(sum, histogram([1, 50, 50, 900, 70_000]));
        assert_eq!(sum.count(), 5);
        assert_eq!(LatencyHistogram::from_counts(sum.counts().iter().copied()), sum);
        assert_eq!(LatencyHistogram::default().counts(), [0; 0]);
        let longer = LatencyHistogram::from_counts([1; 50]);
        assert_eq!((longer.count(), longer.counts()[42]), (50, 8));
    }
}
