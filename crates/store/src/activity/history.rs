//! The buckets of the history, and the points that a chart gets of them.

use std::time::Duration;

use posthaste_domain::Timestamp;

use super::ActivityCounts;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Maximum number of points of a [`History`].
pub const HISTORY_POINTS_MAX: usize = 720;

/// The length of the buckets that a store keeps. Every report is added to one bucket of each length.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resolution {
    TenSeconds,
    Minute,
    HalfHour,
}

impl Resolution {
    /// All resolutions, finest first. A store locks the buckets of a report in this order.
    pub const ALL: [Self; 3] = [Self::TenSeconds, Self::Minute, Self::HalfHour];

    /// Returns the length of a bucket in seconds.
    pub const fn step_seconds(self) -> u32 {
        match self {
            Self::TenSeconds => 10,
            Self::Minute => 60,
            Self::HalfHour => 1_800,
        }
    }

    /// Returns how long a bucket is kept after it began.
    pub const fn kept_for(self) -> Duration {
        Duration::from_secs(match self {
            Self::TenSeconds => HOUR,
            Self::Minute => DAY,
            Self::HalfHour => 31 * DAY,
        })
    }

    /// Returns when the bucket of this time began.
    pub fn bucket_start(self, at: Timestamp) -> Timestamp {
        align(at, self.step_seconds())
    }

    /// Returns the start of the oldest bucket that is kept.
    pub fn oldest_kept(self, now: Timestamp) -> Timestamp {
        self.bucket_start(now.before(self.kept_for()))
    }
}

/// Rounds a time down to a multiple of the step since the epoch.
fn align(at: Timestamp, step_seconds: u32) -> Timestamp {
    let step_us = i64::from(step_seconds) * 1_000_000;
    Timestamp::from_micros(at.as_micros().div_euclid(step_us).saturating_mul(step_us))
}

/// What all processes reported during one step of time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityBucket {
    /// When the step began.
    pub at: Timestamp,
    pub counts: ActivityCounts,
    /// Pending events at the last report.
    pub pending: u64,
    /// Failed events at the last report, without cancelled ones.
    pub dead_letters: u64,
}

/// A period that ends now, for a chart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum HistoryRange {
    QuarterHour,
    #[default]
    Hour,
    SixHours,
    Day,
    Week,
    Month,
}

posthaste_domain::named_variants!(HistoryRange {
    QuarterHour => "15m",
    Hour => "1h",
    SixHours => "6h",
    Day => "24h",
    Week => "7d",
    Month => "30d",
});

/// The history of a period: a point for each step in which a process reported, in time order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct History {
    pub range: HistoryRange,
    pub step_seconds: u32,
    pub points: Vec<ActivityBucket>,
}

impl HistoryRange {
    /// Returns the length of the period.
    pub const fn duration(self) -> Duration {
        Duration::from_secs(match self {
            Self::QuarterHour => 15 * MINUTE,
            Self::Hour => HOUR,
            Self::SixHours => 6 * HOUR,
            Self::Day => DAY,
            Self::Week => 7 * DAY,
            Self::Month => 30 * DAY,
        })
    }

    /// Returns the resolution of the buckets that the period is read from.
    pub const fn resolution(self) -> Resolution {
        match self {
            Self::QuarterHour | Self::Hour => Resolution::TenSeconds,
            Self::SixHours | Self::Day => Resolution::Minute,
            Self::Week | Self::Month => Resolution::HalfHour,
        }
    }

    /// Returns the seconds from one point to the next. A long period has several buckets in a point.
    pub const fn step_seconds(self) -> u32 {
        let buckets = match self {
            Self::QuarterHour | Self::Hour | Self::SixHours | Self::Week => 1,
            Self::Day | Self::Month => 2,
        };
        self.resolution().step_seconds() * buckets
    }

    /// Returns the start of the first step of the period. Its last step contains `now`.
    pub fn start(self, now: Timestamp) -> Timestamp {
        let last = align(now, self.step_seconds());
        last.before(self.duration()).after(Duration::from_secs(self.step_seconds().into()))
    }

    /// Merges buckets of [`HistoryRange::resolution`], in time order, into the points of the period. Ignores buckets outside of
    /// it.
    pub fn merge(self, now: Timestamp, buckets: impl IntoIterator<Item = ActivityBucket>) -> History {
        let first = self.start(now);
        let mut points: Vec<ActivityBucket> = Vec::new();
        for bucket in buckets.into_iter().filter(|bucket| bucket.at >= first && bucket.at <= now) {
            let at = align(bucket.at, self.step_seconds());
            match points.last_mut().filter(|point| point.at == at) {
                None => points.push(ActivityBucket { at, ..bucket }),
                Some(point) => {
                    point.counts.add(&bucket.counts);
                    (point.pending, point.dead_letters) = (bucket.pending, bucket.dead_letters);
                }
            }
        }
        History { range: self, step_seconds: self.step_seconds(), points }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half past an hour: begins a bucket of every resolution.
    const NOW: Timestamp = Timestamp::from_secs(1_700_001_000);

    fn bucket(at: Timestamp, delivered: u64) -> ActivityBucket {
        let counts = ActivityCounts { delivered, ..ActivityCounts::default() };
        ActivityBucket { at, counts, pending: delivered, dead_letters: 2 * delivered }
    }

    fn before(seconds: u64) -> Timestamp {
        NOW.before(Duration::from_secs(seconds))
    }

    #[test]
    fn a_bucket_begins_at_a_multiple_of_its_length() {
        let at = NOW.after(Duration::from_micros(59_999_999));
        let starts = Resolution::ALL.map(|resolution| resolution.bucket_start(at));
        assert_eq!(starts, [NOW.after(Duration::from_secs(50)), NOW, NOW]);
        let negative = Resolution::Minute.bucket_start(Timestamp::from_micros(-1));
        assert_eq!(negative, Timestamp::from_secs(-60));
    }

    #[test]
    fn every_range_is_read_from_kept_buckets_and_has_a_bounded_number_of_points() {
        for range in HistoryRange::ALL {
            assert!(range.resolution().kept_for() >= range.duration(), "{range:?}");
            let now = NOW.after(Duration::from_secs(7));
            let (first, last) = (range.start(now), align(now, range.step_seconds()));
            let points = last.since(first).as_secs() / u64::from(range.step_seconds()) + 1;
            assert_eq!(points * u64::from(range.step_seconds()), range.duration().as_secs(), "{range:?}");
            assert!(points <= HISTORY_POINTS_MAX as u64, "{range:?}: {points}");
            assert!(first >= range.resolution().oldest_kept(now), "{range:?}");
        }
    }

    #[test]
    fn points_are_in_time_order_without_points_for_missing_buckets() {
        let history = HistoryRange::Hour
            .merge(NOW, [bucket(before(3_600), 1), bucket(before(3_590), 2), bucket(NOW, 3)]);
        let points: Vec<_> = history.points.iter().map(|point| (point.at, point.counts.delivered)).collect();
        assert_eq!(points, [(before(3_590), 2), (NOW, 3)]);
        assert_eq!(history.step_seconds, 10);
    }

    #[test]
    fn a_point_of_several_buckets_has_their_sum_and_the_last_sample() {
        let first = HistoryRange::Day.start(NOW);
        let second = first.after(Duration::from_secs(60));
        let history = HistoryRange::Day.merge(NOW, [bucket(first, 3), bucket(second, 4)]);
        assert_eq!(history.points, [ActivityBucket { counts: bucket(first, 7).counts, ..bucket(first, 4) }]);
    }

    #[test]
    fn buckets_of_the_future_are_left_out() {
        let ahead = NOW.after(Duration::from_secs(10));
        assert_eq!(HistoryRange::Hour.merge(NOW, [bucket(ahead, 1)]).points, []);
    }
}
