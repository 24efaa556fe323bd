//! Spans of turns, per destination and in order.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use posthaste_domain::DestinationId;

/// Turns above `low`, up to and including `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) low: i64,
    pub(crate) high: i64,
}

impl Span {
    pub(crate) fn length(self) -> usize {
        usize::try_from(self.high - self.low).unwrap_or(0)
    }
}

/// Destinations that have something, the longest waiting first.
#[derive(Debug, Default)]
pub(crate) struct Lane {
    /// Disjoint and ascending, and none of them empty.
    spans: BTreeMap<DestinationId, VecDeque<Span>>,
    /// Every destination once, by where its first span begins.
    order: BTreeSet<(i64, DestinationId)>,
}

impl Lane {
    /// A row was seen. In the common case it lies beyond all that is known and makes the last span longer; one that
    /// committed late lies below, and becomes a span of its own.
    pub(crate) fn saw(&mut self, destination: DestinationId, turn: i64) {
        let spans = self.spans.entry(destination).or_default();
        match spans.back_mut() {
            None => {
                spans.push_back(Span { low: turn - 1, high: turn });
                self.order.insert((turn - 1, destination));
            }
            Some(last) if turn > last.high => last.high = turn,
            Some(_) => self.include(destination, Span { low: turn - 1, high: turn }),
        }
    }

    /// Makes sure that every turn of the span is covered.
    pub(crate) fn include(&mut self, destination: DestinationId, span: Span) {
        if span.low >= span.high {
            return;
        }
        let spans = self.spans.entry(destination).or_default();
        let before = spans.front().map(|first| first.low);
        let mut merged = VecDeque::with_capacity(spans.len() + 1);
        let mut new = span;
        for old in spans.drain(..) {
            if old.high < new.low {
                merged.push_back(old);
            } else if old.low > new.high {
                merged.push_back(std::mem::replace(&mut new, old));
            } else {
                new = Span { low: old.low.min(new.low), high: old.high.max(new.high) };
            }
        }
        merged.push_back(new);
        *spans = merged;
        self.reorder(destination, before);
    }

    /// Nothing is left in the span.
    pub(crate) fn exhaust(&mut self, destination: DestinationId, gone: Span) {
        let Some(spans) = self.spans.get_mut(&destination) else { return };
        let before = spans.front().map(|first| first.low);
        let cut = |old: Span| {
            let left = Span { low: old.low, high: old.high.min(gone.low) };
            let right = Span { low: old.low.max(gone.high), high: old.high };
            [left, right].into_iter().filter(|span| span.low < span.high)
        };
        *spans = spans.drain(..).flat_map(cut).collect();
        self.reorder(destination, before);
    }

    fn reorder(&mut self, destination: DestinationId, before: Option<i64>) {
        if let Some(before) = before {
            self.order.remove(&(before, destination));
        }
        match self.spans.get(&destination).and_then(VecDeque::front) {
            Some(first) => drop(self.order.insert((first.low, destination))),
            None => drop(self.spans.remove(&destination)),
        }
    }

    /// The first span of every destination, the longest waiting first.
    pub(crate) fn heads(&self) -> impl Iterator<Item = (DestinationId, Span)> {
        self.order.iter().map(|(_, destination)| (*destination, self.spans[destination][0]))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HERE: DestinationId = DestinationId(1);

    fn covered(lane: &Lane) -> Vec<i64> {
        let spans = lane.spans.get(&HERE).into_iter().flatten();
        spans.flat_map(|span| span.low + 1..=span.high).collect()
    }

    #[test]
    fn destinations_come_in_the_order_in_which_they_wait() {
        let mut lane = Lane::default();
        for (turn, destination) in [(5, 2), (6, 1), (7, 3)] {
            lane.saw(DestinationId(destination), turn);
        }
        let order = |lane: &Lane| lane.heads().map(|(destination, _)| destination.0).collect::<Vec<_>>();
        assert_eq!(order(&lane), [2, 1, 3]);
        lane.saw(DestinationId(3), 2);
        assert_eq!(order(&lane), [3, 2, 1], "one that committed late goes first");
        lane.exhaust(DestinationId(2), Span { low: 4, high: 5 });
        assert_eq!(order(&lane), [3, 1]);
    }

    #[test]
    fn a_row_that_committed_late_does_not_rewind_what_was_used_up() {
        let mut lane = Lane::default();
        for turn in [1, 2, 4, 5] {
            lane.saw(HERE, turn);
        }
        lane.exhaust(HERE, Span { low: 0, high: 4 });
        lane.saw(HERE, 3);
        assert_eq!(lane.spans[&HERE], [Span { low: 2, high: 3 }, Span { low: 4, high: 5 }]);
    }

    proptest! {
        /// Against a plain set of turns: nothing seen is forgotten before it is used up, and order holds.
        #[test]
        fn spans_cover_what_was_seen_and_not_used(steps in proptest::collection::vec((0..3_u8, 1..40_i64, 1..10_i64), 1..60)) {
            let mut lane = Lane::default();
            let mut expected = std::collections::BTreeSet::new();
            for (kind, turn, length) in steps {
                match kind {
                    0 => {
                        // Seeing beyond the end covers what lies between: it was looked at, and may be claimed.
                        let between = expected.last().filter(|last| **last < turn).map_or(turn, |last| last + 1);
                        expected.extend(between..=turn);
                        lane.saw(HERE, turn);
                    }
                    1 => {
                        expected.extend(turn + 1..=turn + length);
                        lane.include(HERE, Span { low: turn, high: turn + length });
                    }
                    _ => {
                        expected.retain(|known| *known <= turn || *known > turn + length);
                        lane.exhaust(HERE, Span { low: turn, high: turn + length });
                    }
                }
                prop_assert_eq!(covered(&lane), expected.iter().copied().collect::<Vec<_>>());
                prop_assert_eq!(lane.order.len(), usize::from(!expected.is_empty()));
            }
        }
    }
}
