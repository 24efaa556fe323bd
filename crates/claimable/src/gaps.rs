//! Gaps: sequence numbers that discovery has passed without finding their row.
//!
//! A transaction draws its numbers before it commits, so a row can appear below a number that discovery has already
//! read. Discovery reads each gap again until every transaction that could fill it has ended.

use std::collections::BTreeMap;

use posthaste_domain::Timestamp;

use super::PositionRange;

/// Minimum age of a gap before it is closed: a margin. A transaction gets its id before it draws numbers
/// (`app.webhook_next_event_key`), so the server's snapshot shows every transaction that can fill the gap.
const GAP_AGE_MIN_US: i64 = 5_000_000;
/// Upper bound of the set. Beyond it, neighbouring gaps are merged, and the rows between them are read again.
const GAPS_MAX: usize = 256;
/// Largest distance between two gaps that are merged.
const MERGE_DISTANCE_MAX: i64 = 64;

/// The server's clock and transaction snapshot. Transactions below `xmin` have ended; those from `xmax` on had not
/// begun.
#[derive(Debug, Clone, Copy)]
pub struct ServerSnapshot {
    pub now: Timestamp,
    pub xmin: i64,
    pub xmax: i64,
}

/// Consecutive sequence numbers whose rows discovery has not found. The lower bound is the key of the map in [`Gaps`].
#[derive(Debug, Clone, Copy)]
struct Gap {
    high: i64,
    found_at: Timestamp,
    /// Every transaction that could fill the gap has an id below this. Set by the step after the one that found the
    /// gap.
    filler_xmax: Option<i64>,
}

/// The gaps that discovery reads again, because open transactions may still fill them.
#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// Keyed by the number just below the gap.
    by_low: BTreeMap<i64, Gap>,
}

impl Gaps {
    /// Returns the range of each gap, ascending.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = PositionRange> {
        self.by_low.iter().map(|(low, gap)| PositionRange { low: *low, high: gap.high })
    }

    /// Adds a gap for each run of missing numbers. Discovery read the numbers after `low` and found rows only at the
    /// ascending positions `found`.
    pub(crate) fn add_missing(&mut self, mut low: i64, found: impl IntoIterator<Item = i64>, now: Timestamp) {
        for position in found {
            if position > low + 1 {
                self.by_low.insert(low, Gap { high: position - 1, found_at: now, filler_xmax: None });
            }
            low = position;
        }
        self.enforce_limit();
    }

    /// Removes the ascending positions `found` from a gap, which may split it. Discovery has read the gap up to
    /// `read.high`; beyond that the gap stays until a later step has read it.
    pub(crate) fn narrow(&mut self, read: PositionRange, found: &[i64]) {
        let Some(gap) = self.by_low.remove(&read.low) else { return };
        let mut low = read.low;
        let found = found.iter().copied().filter(|position| *position <= read.high);
        for position in found.chain([gap.high + 1]) {
            if position > low + 1 {
                let is_read = position <= read.high || read.high >= gap.high;
                let filler_xmax = gap.filler_xmax.filter(|_| is_read);
                self.by_low.insert(low, Gap { high: position - 1, filler_xmax, ..gap });
            }
            low = position;
        }
    }

    /// Removes gaps that no open transaction can fill. The snapshot must be older than the latest reading of the gaps.
    pub(crate) fn close(&mut self, snapshot: ServerSnapshot) {
        self.by_low.retain(|_, gap| {
            let is_old = snapshot.now.as_micros() - gap.found_at.as_micros() > GAP_AGE_MIN_US;
            match gap.filler_xmax {
                Some(filler_xmax) => !(is_old && snapshot.xmin >= filler_xmax),
                None => {
                    gap.filler_xmax = Some(snapshot.xmax);
                    true
                }
            }
        });
    }

    /// Merges gaps that are at most [`MERGE_DISTANCE_MAX`] apart, then drops the lowest gaps, until at most
    /// [`GAPS_MAX`] remain.
    fn enforce_limit(&mut self) {
        while self.by_low.len() > GAPS_MAX {
            let neighbours = self.by_low.iter().zip(self.by_low.keys().skip(1));
            let nearest = neighbours.map(|((low, gap), next)| (*next - gap.high, *low, *next)).min();
            match nearest {
                Some((distance, low, next)) if distance <= MERGE_DISTANCE_MAX => self.merge(low, next),
                // The sweep covers the gap that is dropped.
                _ => drop(self.by_low.pop_first()),
            }
        }
    }

    fn merge(&mut self, low: i64, next: i64) {
        if let Some(taken) = self.by_low.remove(&next)
            && let Some(gap) = self.by_low.get_mut(&low)
        {
            gap.high = taken.high;
            gap.found_at = gap.found_at.max(taken.found_at);
            gap.filler_xmax = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_secs(second)
    }

    fn snapshot(second: i64, xmin: i64, xmax: i64) -> ServerSnapshot {
        ServerSnapshot { now: at(second), xmin, xmax }
    }

    fn ranges(gaps: &Gaps) -> Vec<(i64, i64)> {
        gaps.ranges().map(|range| (range.low, range.high)).collect()
    }

    #[test]
    fn missing_numbers_become_gaps_that_found_rows_narrow() {
        let mut gaps = Gaps::default();
        gaps.add_missing(10, [11, 14, 15, 20], at(0));
        assert_eq!(ranges(&gaps), [(11, 13), (15, 19)]);
        gaps.narrow(PositionRange { low: 15, high: 19 }, &[17]);
        assert_eq!(ranges(&gaps), [(11, 13), (15, 16), (17, 19)]);
        gaps.narrow(PositionRange { low: 11, high: 13 }, &[12, 13]);
        assert_eq!(ranges(&gaps), [(15, 16), (17, 19)]);
        gaps.add_missing(20, [40], at(0));
        gaps.narrow(PositionRange { low: 20, high: 30 }, &[25, 30, 35]);
        let rest = [(20, 24), (25, 29), (30, 39)];
        assert_eq!(ranges(&gaps)[2..], rest, "beyond the part that was read, the gap is unchanged");
    }

    #[test]
    fn a_gap_stays_while_a_live_transaction_could_fill_it() {
        let mut gaps = Gaps::default();
        gaps.add_missing(0, [2], at(0));
        gaps.close(snapshot(10, 100, 120));
        gaps.close(snapshot(60, 119, 500));
        assert_eq!(ranges(&gaps), [(0, 1)], "119 was alive when the gap was found");
        gaps.close(snapshot(61, 120, 500));
        assert_eq!(ranges(&gaps), []);
    }

    #[test]
    fn a_gap_stays_for_its_minimum_age_even_without_live_transactions() {
        let mut gaps = Gaps::default();
        gaps.add_missing(0, [2], at(0));
        gaps.close(snapshot(1, 100, 100));
        gaps.close(snapshot(2, 100, 100));
        assert_eq!(ranges(&gaps), [(0, 1)]);
        gaps.close(snapshot(6, 100, 100));
        assert_eq!(ranges(&gaps), []);
    }

    #[test]
    fn near_gaps_beyond_the_limit_are_merged_and_still_cover_every_missing_number() {
        let mut gaps = Gaps::default();
        let found: Vec<i64> = (1..2_000).map(|n| n * 2).collect();
        gaps.add_missing(0, found, at(0));
        assert_eq!(gaps.by_low.len(), GAPS_MAX);
        let covers =
            |position: i64| gaps.ranges().any(|range| range.low < position && position <= range.high);
        assert!((0..1_999).all(|n| covers(n * 2 + 1)), "every odd number is missing");
    }

    #[test]
    fn distant_gaps_are_not_merged_and_the_oldest_are_dropped() {
        let mut gaps = Gaps::default();
        let found: Vec<i64> = (0..300).flat_map(|n| [n * 1_000, n * 1_000 + 2]).collect();
        for pair in found.chunks(2) {
            gaps.add_missing(pair[0], [pair[1]], at(0));
        }
        assert_eq!(gaps.by_low.len(), GAPS_MAX);
        assert!(gaps.ranges().all(|range| range.high - range.low == 1), "each gap is one number");
        assert_eq!(gaps.ranges().last(), Some(PositionRange { low: 299_000, high: 299_001 }));
    }
}
