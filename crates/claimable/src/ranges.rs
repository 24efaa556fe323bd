//! Ranges of queue positions, per destination and in the order in which the destinations wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use posthaste_domain::DestinationId;

/// Queue positions above `low`, up to and including `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PositionRange {
    pub low: i64,
    pub high: i64,
}

impl PositionRange {
    /// Returns how many positions the range holds.
    pub fn length(self) -> usize {
        usize::try_from(self.high - self.low).unwrap_or(0)
    }
}

/// Claimable position ranges per destination. Iteration starts with the destination that has waited longest.
#[derive(Debug, Default)]
pub struct DestinationRanges {
    /// Disjoint, ascending and non-empty ranges. A destination without ranges has no entry.
    ranges: BTreeMap<DestinationId, VecDeque<PositionRange>>,
    /// Every destination once, ordered by the start of its first range.
    order: BTreeSet<(i64, DestinationId)>,
}

impl DestinationRanges {
    /// Adds a row that discovery found. A row beyond the last range, the common case, extends that range. A row that
    /// committed late lies below and gets a range of its own.
    pub fn record_row(&mut self, destination: DestinationId, position: i64) {
        let ranges = self.ranges.entry(destination).or_default();
        match ranges.back_mut() {
            None => {
                ranges.push_back(PositionRange { low: position - 1, high: position });
                self.order.insert((position - 1, destination));
            }
            Some(last) if position > last.high => last.high = position,
            Some(_) => self.add_range(destination, PositionRange { low: position - 1, high: position }),
        }
    }

    /// Adds every position of a range, merging the ranges that it touches.
    pub fn add_range(&mut self, destination: DestinationId, range: PositionRange) {
        if range.low >= range.high {
            return;
        }
        let ranges = self.ranges.entry(destination).or_default();
        let old_low = ranges.front().map(|first| first.low);
        let mut merged = VecDeque::with_capacity(ranges.len() + 1);
        let mut new = range;
        for old in ranges.drain(..) {
            if old.high < new.low {
                merged.push_back(old);
            } else if old.low > new.high {
                merged.push_back(std::mem::replace(&mut new, old));
            } else {
                new = PositionRange { low: old.low.min(new.low), high: old.high.max(new.high) };
            }
        }
        merged.push_back(new);
        *ranges = merged;
        self.update_order(destination, old_low);
    }

    /// Removes every position of a range, splitting the ranges that it cuts.
    pub fn remove_range(&mut self, destination: DestinationId, removed: PositionRange) {
        let Some(ranges) = self.ranges.get_mut(&destination) else { return };
        let old_low = ranges.front().map(|first| first.low);
        let split = |old: PositionRange| {
            let left = PositionRange { low: old.low, high: old.high.min(removed.low) };
            let right = PositionRange { low: old.low.max(removed.high), high: old.high };
            [left, right].into_iter().filter(|range| range.low < range.high)
        };
        *ranges = ranges.drain(..).flat_map(split).collect();
        self.update_order(destination, old_low);
    }

    /// Restores `order` after the first range of a destination may have changed.
    fn update_order(&mut self, destination: DestinationId, old_low: Option<i64>) {
        if let Some(old_low) = old_low {
            self.order.remove(&(old_low, destination));
        }
        match self.ranges.get(&destination).and_then(VecDeque::front) {
            Some(first) => drop(self.order.insert((first.low, destination))),
            None => drop(self.ranges.remove(&destination)),
        }
    }

    /// Returns the first range of a destination.
    pub fn first_range(&self, destination: DestinationId) -> Option<PositionRange> {
        self.ranges.get(&destination).and_then(VecDeque::front).copied()
    }

    /// Returns the first range of every destination, the longest waiting destination first.
    pub fn first_ranges(&self) -> impl Iterator<Item = (DestinationId, PositionRange)> {
        self.order.iter().map(|(_, destination)| (*destination, self.ranges[destination][0]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DESTINATION: DestinationId = DestinationId(1);

    fn covered(index: &DestinationRanges) -> Vec<i64> {
        let ranges = index.ranges.get(&DESTINATION).into_iter().flatten();
        ranges.flat_map(|range| range.low + 1..=range.high).collect()
    }

    #[test]
    fn destinations_are_ordered_by_how_long_they_wait() {
        let mut index = DestinationRanges::default();
        for (position, destination) in [(5, 2), (6, 1), (7, 3)] {
            index.record_row(DestinationId(destination), position);
        }
        let order = |index: &DestinationRanges| {
            index.first_ranges().map(|(destination, _)| destination.0).collect::<Vec<_>>()
        };
        assert_eq!(order(&index), [2, 1, 3]);
        index.record_row(DestinationId(3), 2);
        assert_eq!(order(&index), [3, 2, 1], "a row that committed late moves its destination to the start");
        index.remove_range(DestinationId(2), PositionRange { low: 4, high: 5 });
        assert_eq!(order(&index), [3, 1]);
    }

    #[test]
    fn a_row_that_committed_late_does_not_restore_removed_positions() {
        let mut index = DestinationRanges::default();
        for position in [1, 2, 4, 5] {
            index.record_row(DESTINATION, position);
        }
        index.remove_range(DESTINATION, PositionRange { low: 0, high: 4 });
        index.record_row(DESTINATION, 3);
        assert_eq!(
            index.ranges[&DESTINATION],
            [PositionRange { low: 2, high: 3 }, PositionRange { low: 4, high: 5 }]
        );
    }

    proptest! {
        /// Compares the ranges with a plain set of positions.
        #[test]
        fn ranges_cover_exactly_the_positions_added_and_not_removed(
            steps in proptest::collection::vec((0..3_u8, 1..40_i64, 1..10_i64), 1..60)
        ) {
            let mut index = DestinationRanges::default();
            let mut expected = std::collections::BTreeSet::new();
            for (kind, position, length) in steps {
                match kind {
                    0 => {
                        // A row beyond the end also covers the positions before it: they have been read.
                        let start =
                            expected.last().filter(|last| **last < position).map_or(position, |last| last + 1);
                        expected.extend(start..=position);
                        index.record_row(DESTINATION, position);
                    }
                    1 => {
                        expected.extend(position + 1..=position + length);
                        index.add_range(DESTINATION, PositionRange { low: position, high: position + length });
                    }
                    _ => {
                        expected.retain(|covered| *covered <= position || *covered > position + length);
                        index.remove_range(DESTINATION, PositionRange { low: position, high: position + length });
                    }
                }
                prop_assert_eq!(covered(&index), expected.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(index.order.len(), usize::from(!expected.is_empty()));
            }
        }
    }
}
