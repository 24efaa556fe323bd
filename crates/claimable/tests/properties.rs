//! Properties of discovery and of ranges, on random sequences.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_claimable::{
    ClaimableIndex, CommittedNumber, DestinationRanges, DiscoveryCursors, DiscoveryStep, PositionRange,
    QueuedRow, ServerSnapshot, StepRows,
};
use posthaste_domain::{DestinationId, Timestamp};
use proptest::prelude::*;

const DESTINATION: DestinationId = DestinationId(1);
/// Rows that a step reads of one range: few, so that steps stop within ranges.
const ROWS_MAX: usize = 3;

/// A server on which transactions draw numbers, stay open, and end in any order.
struct Server {
    now_s: i64,
    next_number: i64,
    next_transaction: i64,
    /// The numbers of each open transaction.
    open: BTreeMap<i64, Vec<i64>>,
    events: BTreeSet<i64>,
    queue: BTreeSet<i64>,
}

#[derive(Debug, Clone)]
enum Operation {
    /// A transaction begins and draws numbers.
    Begin {
        numbers: usize,
    },
    /// An open transaction draws further numbers.
    Draw {
        transaction: usize,
        numbers: usize,
    },
    End {
        transaction: usize,
        commits: bool,
    },
    /// Another worker delivers an event, so that its row leaves the queue.
    Deliver {
        event: usize,
    },
    Wait {
        seconds: i64,
    },
    Step,
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        3 => (1..4_usize).prop_map(|numbers| Operation::Begin { numbers }),
        2 => (0..8_usize, 1..3_usize).prop_map(|(transaction, numbers)| Operation::Draw { transaction, numbers }),
        3 => (0..8_usize, prop::bool::weighted(0.7))
            .prop_map(|(transaction, commits)| Operation::End { transaction, commits }),
        1 => (0..8_usize).prop_map(|event| Operation::Deliver { event }),
        1 => (1..8_i64).prop_map(|seconds| Operation::Wait { seconds }),
        4 => Just(Operation::Step),
    ]
}

impl Server {
    fn new() -> Self {
        Self {
            now_s: 2_000_000_000,
            next_number: 1,
            next_transaction: 100,
            open: BTreeMap::new(),
            events: BTreeSet::new(),
            queue: BTreeSet::new(),
        }
    }

    fn draw(&mut self, numbers: usize) -> Vec<i64> {
        (0..numbers)
            .map(|_| {
                self.next_number += 1;
                self.next_number - 1
            })
            .collect()
    }

    fn end(&mut self, transaction: usize, commits: bool) {
        let Some(id) = self.open.keys().nth(transaction % self.open.len().max(1)).copied() else { return };
        let numbers = self.open.remove(&id).unwrap_or_default();
        if commits {
            self.events.extend(&numbers);
            self.queue.extend(numbers);
        }
    }

    fn apply(&mut self, operation: &Operation) {
        match *operation {
            Operation::Begin { numbers } => {
                let drawn = self.draw(numbers);
                self.open.insert(self.next_transaction, drawn);
                self.next_transaction += 1;
            }
            Operation::Draw { transaction, numbers } if !self.open.is_empty() => {
                let drawn = self.draw(numbers);
                let id = *self.open.keys().nth(transaction % self.open.len()).expect("the index is in range");
                self.open.entry(id).or_default().extend(drawn);
            }
            Operation::End { transaction, commits } => self.end(transaction, commits),
            Operation::Deliver { event } if !self.queue.is_empty() => {
                let delivered = *self.queue.iter().nth(event % self.queue.len()).expect("in range");
                self.queue.remove(&delivered);
            }
            Operation::Wait { seconds } => self.now_s += seconds,
            Operation::Draw { .. } | Operation::Deliver { .. } | Operation::Step => {}
        }
    }

    fn snapshot(&self) -> ServerSnapshot {
        let xmin = self.open.keys().next().copied().unwrap_or(self.next_transaction);
        ServerSnapshot { now: Timestamp::from_secs(self.now_s), xmin, xmax: self.next_transaction }
    }

    fn read(&self, step: &DiscoveryStep) -> StepRows {
        let bounds = |lows: &[i64], highs: &[i64]| -> Vec<(usize, (i64, i64))> {
            lows.iter().copied().zip(highs.iter().copied()).enumerate().collect()
        };
        let within = |set: &BTreeSet<i64>, (low, high): (i64, i64)| -> Vec<i64> {
            set.iter().copied().filter(|n| *n > low && *n <= high).take(ROWS_MAX).collect()
        };
        let mut rows = StepRows { queued: Vec::new(), committed: Vec::new(), rows_max: ROWS_MAX };
        for (range, bounds) in bounds(&step.lows, &step.highs) {
            rows.queued.extend(within(&self.queue, bounds).into_iter().map(|position| QueuedRow {
                range,
                position,
                destination: DESTINATION,
                is_leased: false,
            }));
        }
        for (gap, bounds) in bounds(&step.gap_lows, &step.gap_highs) {
            let numbers = within(&self.events, bounds).into_iter();
            rows.committed.extend(numbers.map(|number| CommittedNumber { gap, number }));
        }
        rows
    }
}

/// Runs a discovery step and adds the positions that it found.
fn step(
    server: &Server,
    cursors: &mut DiscoveryCursors,
    index: &mut ClaimableIndex,
    found: &mut BTreeSet<i64>,
) {
    let (snapshot, step) = (server.snapshot(), cursors.next_step());
    let rows = server.read(&step);
    found.extend(rows.queued.iter().map(|row| row.position));
    cursors.record_step(&step, snapshot, &rows, index);
}

#[derive(Debug, Clone)]
enum Change {
    Row(i64),
    Add(i64, i64),
    Remove(i64, i64),
}

fn change() -> impl Strategy<Value = Change> {
    let bounds = || (0..60_i64, 0..12_i64).prop_map(|(low, length)| (low, low + length));
    prop_oneof![
        (1..60_i64).prop_map(Change::Row),
        bounds().prop_map(|(low, high)| Change::Add(low, high)),
        bounds().prop_map(|(low, high)| Change::Remove(low, high)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn discovery_finds_every_committed_row_in_whatever_order_transactions_end(
        operations in prop::collection::vec(operation(), 1..120)
    ) {
        let mut server = Server::new();
        let (mut cursors, mut index, mut found) =
            (DiscoveryCursors::default(), ClaimableIndex::default(), BTreeSet::new());
        cursors.start(0, server.snapshot().now);
        for operation in &operations {
            server.apply(operation);
            if matches!(operation, Operation::Step) {
                step(&server, &mut cursors, &mut index, &mut found);
            }
        }
        while !server.open.is_empty() {
            server.end(0, true);
        }
        // Each step reads a few rows of each range, and gaps close when they are old enough.
        for _ in 0..200 {
            server.now_s += 1;
            step(&server, &mut cursors, &mut index, &mut found);
        }
        let missed: Vec<_> = server.queue.difference(&found).collect();
        prop_assert!(missed.is_empty(), "missed {:?}", missed);
        let (lows, _) = cursors.first_attempt_ranges();
        prop_assert_eq!(lows.len(), 1, "every gap is closed");
    }

    #[test]
    fn ranges_hold_what_was_added_and_not_removed(changes in prop::collection::vec(change(), 1..40)) {
        let (mut ranges, mut model) = (DestinationRanges::default(), BTreeSet::new());
        for change in &changes {
            match *change {
                // A row beyond the last range extends that range over the positions in between.
                Change::Row(position) => {
                    if let Some(last) = model.last().copied().filter(|last| *last < position) {
                        model.extend(last..position);
                    }
                    model.insert(position);
                    ranges.record_row(DESTINATION, position);
                }
                Change::Add(low, high) => {
                    model.extend(low + 1..=high);
                    ranges.add_range(DESTINATION, PositionRange { low, high });
                }
                Change::Remove(low, high) => {
                    model.retain(|position| *position <= low || *position > high);
                    ranges.remove_range(DESTINATION, PositionRange { low, high });
                }
            }
        }
        let mut held = BTreeSet::new();
        while let Some(range) = ranges.first_range(DESTINATION) {
            prop_assert!(range.low < range.high, "no range is empty");
            prop_assert!(held.last().is_none_or(|last| *last < range.low + 1), "ranges are ascending");
            held.extend(range.low + 1..=range.high);
            ranges.remove_range(DESTINATION, range);
        }
        prop_assert_eq!(held, model);
    }
}
