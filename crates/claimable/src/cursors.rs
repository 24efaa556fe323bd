//! The positions up to which discovery has read the queue.

use posthaste_domain::{DestinationId, Timestamp};

use super::{ClaimableIndex, Gaps, PositionRange, RETRY_POSITION_MIN, ServerSnapshot};

/// How far back each step reads retries again, because their transaction may have committed since the last step. For
/// example, releasing the lease of a retry makes the retry due at once.
const RETRY_OVERLAP_US: i64 = 100_000;
/// How far below the sequence's last number discovery starts, so that it finds rows that are being committed.
const START_BELOW_LAST: i64 = 10_000;

/// How far discovery has read the queue, and the gaps below that open transactions may still fill.
#[derive(Debug, Default)]
pub struct DiscoveryCursors {
    /// Last position read of first attempts; none before discovery has started.
    first_attempts: Option<i64>,
    /// Last position read of retries.
    retries: i64,
    /// Time, in microseconds, up to which the expiry checks of claims have been done.
    expiry_checks: i64,
    gaps: Gaps,
    /// The server's clock at the last step.
    now: Timestamp,
}

/// The ranges that one discovery step reads, as columns of lower and upper bounds.
#[derive(Debug)]
pub struct DiscoveryStep {
    /// Lower bounds of first attempts, of retries, then of each gap.
    pub lows: Vec<i64>,
    /// Upper bounds, in the same order.
    pub highs: Vec<i64>,
    /// Lower bounds of the gaps alone.
    pub gap_lows: Vec<i64>,
    /// Upper bounds of the gaps alone.
    pub gap_highs: Vec<i64>,
}

/// A queued event that a step has read, leased or not.
#[derive(Debug, Clone, Copy)]
pub struct QueuedRow {
    /// The index of the range among [`DiscoveryStep::lows`].
    pub range: usize,
    pub position: i64,
    pub destination: DestinationId,
    /// Whether a claim holds the event. If the lease expires, the expiry check of that claim finds the event.
    pub is_leased: bool,
}

/// A number within a gap whose event has been committed.
#[derive(Debug, Clone, Copy)]
pub struct CommittedNumber {
    /// The index of the gap among [`DiscoveryStep::gap_lows`].
    pub gap: usize,
    pub number: i64,
}

/// What a step has read: the rows of each range and the numbers of each gap, ascending.
#[derive(Debug)]
pub struct StepRows {
    pub queued: Vec<QueuedRow>,
    pub committed: Vec<CommittedNumber>,
    /// The most rows that the step read of a range. A range with as many has been read only up to its last row. This does not hold
    /// for the first range, that of new events: the next step continues after its last row in any case.
    pub rows_max: usize,
}

impl DiscoveryCursors {
    /// Starts discovery just below the sequence's last number. The first sweep covers the rows below.
    pub fn start(&mut self, last_number: i64, now: Timestamp) {
        *self = Self {
            first_attempts: Some((last_number - START_BELOW_LAST).max(0)),
            retries: now.as_micros(),
            now,
            ..Self::default()
        };
    }

    /// Returns the server's clock at the last step.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Returns whether discovery has started.
    pub fn has_started(&self) -> bool {
        self.first_attempts.is_some()
    }

    /// Returns whether the server's clock has stepped back since the last step. Retries that become due by the new time
    /// lie below the positions that discovery has read. Every step reads the last `RETRY_OVERLAP_US` again, which covers
    /// smaller steps back.
    pub fn has_clock_stepped_back(&self, now: Timestamp) -> bool {
        now.as_micros() < self.now.as_micros() - RETRY_OVERLAP_US
    }

    /// Makes the next steps check every claim whose expiry check is due, not only those that have become due since the
    /// last step.
    pub fn restart_expiry_checks(&mut self) {
        self.expiry_checks = 0;
    }

    /// Returns the time, in microseconds, up to which the expiry checks of claims have been done.
    pub fn expiry_checked_to(&self) -> i64 {
        self.expiry_checks
    }

    /// Records that all expiry checks that were due at this time have been done.
    pub fn record_expiry_checks(&mut self, checked_to: Timestamp) {
        self.expiry_checks = self.expiry_checks.max(checked_to.as_micros());
    }

    /// Records that expiry checks were done up to this time only, because a step does only so many.
    pub fn record_partial_expiry_checks(&mut self, checked_to: Timestamp) {
        self.expiry_checks = checked_to.as_micros();
    }

    /// Returns the ranges in which the next step reads first attempts, as columns of lower and upper bounds.
    pub fn first_attempt_ranges(&self) -> (Vec<i64>, Vec<i64>) {
        let (first_attempts, _) = self.discovered_to();
        let above = PositionRange { low: first_attempts, high: RETRY_POSITION_MIN - 1 };
        std::iter::once(above).chain(self.gaps.ranges()).map(|range| (range.low, range.high)).unzip()
    }

    /// Returns the positions up to which discovery has read first attempts and retries.
    pub fn discovered_to(&self) -> (i64, i64) {
        (self.first_attempts.unwrap_or(0), self.retries)
    }

    /// Returns the ranges that the next step reads.
    pub fn next_step(&self) -> DiscoveryStep {
        let (gap_lows, gap_highs): (Vec<i64>, Vec<i64>) =
            self.gaps.ranges().map(|range| (range.low, range.high)).unzip();
        let (first_attempts, retries) = self.discovered_to();
        let lows = [first_attempts, retries].into_iter().chain(gap_lows.iter().copied()).collect();
        let highs = [RETRY_POSITION_MIN - 1, i64::MAX].into_iter().chain(gap_highs.iter().copied()).collect();
        DiscoveryStep { lows, highs, gap_lows, gap_highs }
    }

    /// Adds the rows that a step has read to the index, and advances the cursors. The snapshot must not be newer than
    /// the rows.
    pub fn record_step(
        &mut self,
        step: &DiscoveryStep,
        snapshot: ServerSnapshot,
        rows: &StepRows,
        claimable: &mut ClaimableIndex,
    ) {
        let mut queued: Vec<Vec<i64>> = vec![Vec::new(); step.lows.len()];
        for row in &rows.queued {
            queued[row.range].push(row.position);
            if !row.is_leased {
                claimable.record_row(row.destination, row.position);
            }
        }
        let mut committed: Vec<Vec<i64>> = vec![Vec::new(); step.gap_lows.len()];
        for row in &rows.committed {
            committed[row.gap].push(row.number);
        }
        self.now = snapshot.now;
        // A reading that stopped at the limit reached only its last row.
        let read_to = |read: &[i64], high: i64| match read.last() {
            Some(last) if read.len() >= rows.rows_max => *last,
            _ => high,
        };
        for (gap, (low, high)) in step.gap_lows.iter().zip(&step.gap_highs).enumerate() {
            let (queued, committed) = (&queued[gap + 2], &committed[gap]);
            let high = read_to(queued, *high).min(read_to(committed, *high));
            let mut found = [&queued[..], &committed[..]].concat();
            found.sort_unstable();
            found.dedup();
            self.gaps.narrow(PositionRange { low: *low, high }, &found);
        }
        self.gaps.close(snapshot);
        self.gaps.add_missing(step.lows[0], queued[0].iter().copied(), snapshot.now);
        if let Some(last) = queued[0].last() {
            self.first_attempts = Some(*last);
        }
        // Retries may share a position, so the last position read may have more rows: the next step reads it again.
        let due_to = self.retries.max(snapshot.now.as_micros() - RETRY_OVERLAP_US);
        self.retries = self.retries.max(read_to(&queued[1], due_to + 1) - 1);
    }
}
