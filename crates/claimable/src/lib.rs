//! What a worker of the PostgreSQL store can claim: the pure part of discovery, without SQL and without I/O.
//!
//! **The problem.** A claim must not read rows that cannot be sent now, nor the dead index entries of delivered events. So each
//! process *discovers* claimable rows, keeps them here as ranges of queue positions, and names ranges in its claims.
//!
//! **Positions.** Each queued event has a position: a first attempt the number that it drew from a sequence, a retry its due
//! time in microseconds, which is larger than any such number ([`RETRY_POSITION_MIN`]).
//!
//! **Discovery.** [`DiscoveryCursors`] say how far the queue has been read. Each step reads what lies above
//! ([`DiscoveryCursors::next_step`]), and adds the rows to the [`ClaimableIndex`] ([`DiscoveryCursors::record_step`]). So each row
//! is read about once.
//!
//! **Gaps.** A transaction draws its number before it commits, so a row can appear below a position that has been read. Each
//! number that was passed without a row is in a *gap*. Every step reads the gaps again, until no transaction that could fill
//! them is running. PostgreSQL's snapshot can miss a transaction that began last; a periodic sweep of the store finds its
//! rows, and those of transactions that were open when the process started.
//!
//! **Claims.** [`ClaimableIndex::plan`] chooses ranges and expired leases that fit the free slots. What the claim used up is
//! removed from the index ([`ClaimableIndex::record_claimed`]). A range may be stale: if other workers have claimed its rows, it
//! yields none and is dropped. Rows that other transactions had locked stay: their transaction may roll back.
//!
//! **The invariant.** Every committed row is above the cursors, in a gap, in the index, or leased. A sweep restores it for rows
//! that the reasoning about gaps missed.
#![forbid(unsafe_code)]

mod cursors;
mod gaps;
mod left;
mod plan;
mod ranges;
mod receivers;

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, EventKey, Timestamp};

pub use cursors::{CommittedNumber, DiscoveryCursors, DiscoveryStep, QueuedRow, StepRows};
use gaps::Gaps;
pub use gaps::ServerSnapshot;
pub use left::LeftRow;
use left::LeftRows;
pub use plan::{ClaimBudget, ClaimPlan, RangeClaim};
pub use ranges::{DestinationRanges, PositionRange};
pub use receivers::Receivers;

/// The lowest queue position of a retry. First attempts are numbered by a sequence and stay below it; retries use
/// microseconds since the Unix epoch, which have been above it since 2001.
pub const RETRY_POSITION_MIN: i64 = 1_000_000_000_000_000;

/// An event whose lease has expired and that no worker is known to have taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiredLease {
    pub destination: DestinationId,
    pub attempts: u32,
    /// Leases that the event lost in a row before this one.
    pub lost_leases: u32,
}

/// What a claim was granted within one range.
#[derive(Debug, Default, Clone, Copy)]
pub struct RangeResult {
    /// The number of granted rows.
    pub granted: usize,
    /// The position of the last granted row.
    pub granted_to: Option<i64>,
    /// Describes the rows, if the claim found rows that it was not granted.
    pub remainder: Option<UngrantedRows>,
}

/// The rows that a claim found within one range and was granted in part: other claims hold the others, or their payloads
/// did not fit.
#[derive(Debug, Clone, Copy)]
pub struct UngrantedRows {
    /// The number of rows, granted or not.
    pub rows: usize,
    /// The number of rows that other transactions have locked: they are granting them, or are about to be rolled back.
    pub locked_rows: usize,
    /// The position of the last row, granted or not.
    pub last_position: i64,
    /// The first row whose payload did not fit.
    pub first_left: Option<LeftRow>,
}

/// An index of the rows that this process believes to be claimable: new, due for a retry, or with an expired lease.
#[derive(Debug, Default)]
pub struct ClaimableIndex {
    pub first_attempts: DestinationRanges,
    pub retries: DestinationRanges,
    pub expired: BTreeMap<EventKey, ExpiredLease>,
    /// Destinations that a claim found paused, with the end of the pause.
    paused: BTreeMap<DestinationId, Timestamp>,
    left: LeftRows,
    pub receivers: Receivers,
}

impl ClaimableIndex {
    /// Returns the ranges that hold this queue position: those of first attempts or those of retries.
    fn ranges_of(&mut self, position: i64) -> &mut DestinationRanges {
        if position < RETRY_POSITION_MIN { &mut self.first_attempts } else { &mut self.retries }
    }

    /// Adds a row that discovery found unleased.
    pub fn record_row(&mut self, destination: DestinationId, position: i64) {
        self.receivers.note(destination);
        self.ranges_of(position).record_row(destination, position);
    }

    /// Adds a range of rows that a sweep found unleased.
    pub fn record_range(&mut self, destination: DestinationId, range: PositionRange) {
        self.receivers.note(destination);
        self.ranges_of(range.high).add_range(destination, range);
    }

    /// Adds an event whose lease has expired.
    pub fn record_expired(&mut self, key: EventKey, expired: ExpiredLease) {
        self.receivers.note(expired.destination);
        self.expired.insert(key, expired);
    }

    /// Records that a destination is paused. Claims leave it out until the pause ends.
    pub fn record_pause(&mut self, destination: DestinationId, until: Timestamp) {
        self.paused.insert(destination, until);
    }

    /// Records that an operator has resumed a destination.
    pub fn record_resume(&mut self, destination: DestinationId) {
        self.paused.remove(&destination);
    }

    /// Records that the URL of a destination may have changed.
    pub fn record_update(&mut self, destination: DestinationId) {
        self.receivers.record_update(destination);
    }

    /// Forgets receivers without claimable rows if there are too many.
    pub fn trim_receivers(&mut self) {
        let Self { first_attempts, retries, receivers, .. } = self;
        receivers.trim(|destination| {
            first_attempts.first_range(destination).is_some() || retries.first_range(destination).is_some()
        });
    }

    fn is_paused(&self, destination: DestinationId, now: Timestamp) -> bool {
        self.paused.get(&destination).is_some_and(|until| *until > now)
    }

    /// Records the first row of a destination whose payload did not fit. For a while, claims that it does not fit either leave it
    /// without asking for it.
    pub fn record_left(&mut self, destination: DestinationId, left: LeftRow, now: Timestamp) {
        self.left.record(destination, left, now);
    }

    /// Forgets pauses that have ended, and payloads that were left a while ago.
    pub fn remove_ended(&mut self, now: Timestamp) {
        self.paused.retain(|_, until| *until > now);
        self.left.remove_old(now);
    }

    /// Removes the part of a range that a claim has used up. Returns this part if it contains rows that other transactions
    /// have locked.
    pub fn record_claimed(&mut self, claim: &RangeClaim, result: &RangeResult) -> Option<PositionRange> {
        let range = claim.range;
        let is_retry = range.high >= RETRY_POSITION_MIN;
        let used_to = match (result.granted_to, result.remainder) {
            // A payload did not fit. All rows before it have been granted, or other claims hold them.
            (_, Some(UngrantedRows { first_left: Some(left), .. })) => left.position - 1,
            // Other transactions have locked the rows that this claim did not get. More rows may follow them.
            (_, Some(UngrantedRows { rows, last_position, .. })) if rows >= claim.limit => last_position,
            // Several retries may share a position, and the claim may have returned only some of them.
            (Some(last), None) if result.granted >= claim.limit => last - i64::from(is_retry),
            // The claim found fewer rows than its limit: the range holds no more.
            _ => range.high,
        };
        let used = PositionRange { low: range.low, high: used_to };
        self.ranges_of(range.high).remove_range(claim.destination, used);
        result.remainder.filter(|rows| rows.locked_rows > 0).map(|_| used)
    }

    /// Adds ranges of locked rows again, so that the next claim finds the rows whose transaction was rolled back.
    pub fn restore_locked(&mut self, locked: impl IntoIterator<Item = (DestinationId, PositionRange)>) {
        for (destination, range) in locked {
            self.ranges_of(range.high).add_range(destination, range);
        }
    }
}
