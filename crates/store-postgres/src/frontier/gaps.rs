//! Turns that discovery has passed without seeing their row.
//!
//! A number is drawn before its transaction commits, so rows can appear below one that was seen already. Each number
//! that was passed over is looked for again until no transaction that could bring it is alive.

use std::collections::BTreeMap;

use posthaste_domain::Timestamp;

use super::Span;

/// A transaction draws its numbers a moment before it gets the id by which the server would show it as alive. This is
/// far longer than such a moment; what would be slower still is found by the sweep.
const KEEP_US: i64 = 5_000_000;
/// When there are more gaps than this, near ones are looked for as if they were one, which costs reading what lies
/// between.
const GAPS_MAX: usize = 256;
/// What may lie between them.
const BRIDGE_MAX: i64 = 64;

/// What the server knew when it was asked: transactions below `xmin` are over, those from `xmax` on have not begun.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Horizon {
    pub(crate) now: Timestamp,
    pub(crate) xmin: i64,
    pub(crate) xmax: i64,
}

#[derive(Debug, Clone, Copy)]
struct Gap {
    high: i64,
    found_at: Timestamp,
    /// Whoever could fill it is older than this transaction; not known in the step that found the gap.
    filled_before: Option<i64>,
}

#[derive(Debug, Default)]
pub(crate) struct Gaps {
    /// By what lies just below.
    by_low: BTreeMap<i64, Gap>,
}

impl Gaps {
    pub(crate) fn spans(&self) -> impl Iterator<Item = Span> {
        self.by_low.iter().map(|(low, gap)| Span { low: *low, high: gap.high })
    }

    /// Everything after `passed` up to the last of `seen` was looked at, and only `seen` was there.
    pub(crate) fn pass(&mut self, passed: i64, seen: impl IntoIterator<Item = i64>, now: Timestamp) {
        let mut low = passed;
        for turn in seen {
            if turn > low + 1 {
                self.by_low.insert(low, Gap { high: turn - 1, found_at: now, filled_before: None });
            }
            low = turn;
        }
        self.merge();
    }

    /// A gap was looked at again, up to `span.high`, and `seen` was there, ascending: what remains are the gaps between.
    pub(crate) fn narrow(&mut self, span: Span, seen: &[i64]) {
        let Some(gap) = self.by_low.remove(&span.low) else { return };
        let mut low = span.low;
        let seen = seen.iter().copied().filter(|turn| *turn <= span.high);
        for turn in seen.chain([gap.high + 1]) {
            if turn > low + 1 {
                self.by_low.insert(low, Gap { high: turn - 1, ..gap });
            }
            low = turn;
        }
    }

    /// Forgets gaps that nobody can fill any more. `horizon` was asked for before the gaps were looked at last.
    pub(crate) fn close(&mut self, horizon: Horizon) {
        self.by_low.retain(|_, gap| {
            let old = horizon.now.as_micros() - gap.found_at.as_micros() > KEEP_US;
            match gap.filled_before {
                Some(filled_before) => !(old && horizon.xmin >= filled_before),
                None => {
                    gap.filled_before = Some(horizon.xmax);
                    true
                }
            }
        });
    }

    fn merge(&mut self) {
        while self.by_low.len() > GAPS_MAX {
            let nearest = self.by_low.iter().zip(self.by_low.keys().skip(1));
            let apart = nearest.map(|((low, gap), next)| (*next - gap.high, *low, *next)).min();
            match apart {
                Some((apart, low, next)) if apart <= BRIDGE_MAX => self.bridge(low, next),
                // The oldest is left to the sweep.
                _ => drop(self.by_low.pop_first()),
            }
        }
    }

    fn bridge(&mut self, low: i64, next: i64) {
        if let Some(taken) = self.by_low.remove(&next)
            && let Some(gap) = self.by_low.get_mut(&low)
        {
            gap.high = taken.high;
            gap.found_at = gap.found_at.max(taken.found_at);
            gap.filled_before = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_secs(second)
    }

    fn horizon(second: i64, xmin: i64, xmax: i64) -> Horizon {
        Horizon { now: at(second), xmin, xmax }
    }

    fn spans(gaps: &Gaps) -> Vec<(i64, i64)> {
        gaps.spans().map(|span| (span.low, span.high)).collect()
    }

    #[test]
    fn numbers_that_were_passed_over_are_remembered_and_narrowed() {
        let mut gaps = Gaps::default();
        gaps.pass(10, [11, 14, 15, 20], at(0));
        assert_eq!(spans(&gaps), [(11, 13), (15, 19)]);
        gaps.narrow(Span { low: 15, high: 19 }, &[17]);
        assert_eq!(spans(&gaps), [(11, 13), (15, 16), (17, 19)]);
        gaps.narrow(Span { low: 11, high: 13 }, &[12, 13]);
        assert_eq!(spans(&gaps), [(15, 16), (17, 19)]);
        gaps.pass(20, [40], at(0));
        gaps.narrow(Span { low: 20, high: 30 }, &[25, 30, 35]);
        let rest = [(20, 24), (25, 29), (30, 39)];
        assert_eq!(spans(&gaps)[2..], rest, "beyond where it was looked at, the gap is as it was");
    }

    #[test]
    fn a_gap_stays_while_a_transaction_that_was_alive_could_fill_it() {
        let mut gaps = Gaps::default();
        gaps.pass(0, [2], at(0));
        gaps.close(horizon(10, 100, 120));
        gaps.close(horizon(60, 119, 500));
        assert_eq!(spans(&gaps), [(0, 1)], "119 was alive when the gap was found");
        gaps.close(horizon(61, 120, 500));
        assert_eq!(spans(&gaps), []);
    }

    #[test]
    fn a_gap_stays_for_a_while_even_when_nobody_seems_to_be_alive() {
        let mut gaps = Gaps::default();
        gaps.pass(0, [2], at(0));
        gaps.close(horizon(1, 100, 100));
        gaps.close(horizon(2, 100, 100));
        assert_eq!(spans(&gaps), [(0, 1)]);
        gaps.close(horizon(6, 100, 100));
        assert_eq!(spans(&gaps), []);
    }

    #[test]
    fn very_many_gaps_become_fewer_and_lose_nothing() {
        let mut gaps = Gaps::default();
        let seen: Vec<i64> = (1..2_000).map(|n| n * 2).collect();
        gaps.pass(0, seen, at(0));
        assert_eq!(gaps.by_low.len(), GAPS_MAX);
        let covers = |turn: i64| gaps.spans().any(|span| span.low < turn && turn <= span.high);
        assert!((0..1_999).all(|n| covers(n * 2 + 1)), "every odd number was passed over");
    }

    #[test]
    fn gaps_that_lie_far_apart_are_not_bridged_and_the_oldest_are_left_to_the_sweep() {
        let mut gaps = Gaps::default();
        let seen: Vec<i64> = (0..300).flat_map(|n| [n * 1_000, n * 1_000 + 2]).collect();
        for pair in seen.chunks(2) {
            gaps.pass(pair[0], [pair[1]], at(0));
        }
        assert_eq!(gaps.by_low.len(), GAPS_MAX);
        assert!(gaps.spans().all(|span| span.high - span.low == 1), "each is one number");
        assert_eq!(gaps.spans().last(), Some(Span { low: 299_000, high: 299_001 }));
    }
}
