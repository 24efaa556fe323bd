//! An in-memory index of the rows that this process believes to be claimable.
//!
//! A claim reads only the rows that it can send: a destination that is saturated, paused or behind an open circuit is
//! left out of the statement and costs nothing. The index holds *ranges* of queue positions per destination.
//! Discovery adds ranges, claims use them up. First attempts are ordered by arrival, retries by due time.
//! The index may be stale: a range whose rows another worker has claimed yields no rows and is dropped.
//!
//! This module does no I/O. Callers run the statements and record their rows here.

mod gaps;
mod plan;
mod ranges;
mod receivers;

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, EventKey, Timestamp};

pub(crate) use gaps::{Gaps, ServerSnapshot};
pub(crate) use plan::{ClaimBudget, ClaimPlan, RangeClaim};
pub(crate) use ranges::{DestinationRanges, PositionRange};
pub(crate) use receivers::Receivers;

/// The lowest queue position of a retry. First attempts are numbered by a sequence and stay below it; retries use
/// microseconds since the Unix epoch, which have been above it since 2001.
pub(crate) const RETRY_POSITION_MIN: i64 = 1_000_000_000_000_000;

/// An event whose lease has expired and that no worker is known to have taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ExpiredLease {
    pub(crate) destination: DestinationId,
    pub(crate) attempts: u32,
    /// Leases that the event lost in a row before this one.
    pub(crate) lost_leases: u32,
}

/// What a claim was granted within one range.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct RangeResult {
    /// The number of granted rows.
    pub(crate) granted: usize,
    /// The position of the last granted row.
    pub(crate) granted_to: Option<i64>,
    /// Describes the rows, if the claim found rows that it was not granted.
    pub(crate) remainder: Option<UngrantedRows>,
}

/// The rows that a claim found within one range and was granted in part: other claims hold the others, or their payloads
/// did not fit.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UngrantedRows {
    /// The number of rows, granted or not.
    pub(crate) rows: usize,
    /// The number of rows that other transactions have locked: they are granting them, or are about to be rolled back.
    pub(crate) locked_rows: usize,
    /// The position of the last row, granted or not.
    pub(crate) last_position: i64,
    /// The position of the first row whose payload did not fit.
    pub(crate) first_left: Option<i64>,
}

/// An index of the rows that this process believes to be claimable: new, due for a retry, or with an expired lease.
#[derive(Debug, Default)]
pub(crate) struct ClaimableIndex {
    pub(crate) first_attempts: DestinationRanges,
    pub(crate) retries: DestinationRanges,
    pub(crate) expired: BTreeMap<EventKey, ExpiredLease>,
    /// Destinations that a claim found paused, with the end of the pause.
    paused: BTreeMap<DestinationId, Timestamp>,
    pub(crate) receivers: Receivers,
}

impl ClaimableIndex {
    /// Returns the ranges that hold this queue position: those of first attempts or those of retries.
    fn ranges_of(&mut self, position: i64) -> &mut DestinationRanges {
        if position < RETRY_POSITION_MIN { &mut self.first_attempts } else { &mut self.retries }
    }

    /// Adds a row that discovery found unleased.
    pub(crate) fn record_row(&mut self, destination: DestinationId, position: i64) {
        self.receivers.note(destination);
        self.ranges_of(position).record_row(destination, position);
    }

    /// Adds a range of rows that a sweep found unleased.
    pub(crate) fn record_range(&mut self, destination: DestinationId, range: PositionRange) {
        self.receivers.note(destination);
        self.ranges_of(range.high).add_range(destination, range);
    }

    /// Adds an event whose lease has expired.
    pub(crate) fn record_expired(&mut self, key: EventKey, expired: ExpiredLease) {
        self.receivers.note(expired.destination);
        self.expired.insert(key, expired);
    }

    /// Records that a destination is paused. Claims leave it out until the pause ends.
    pub(crate) fn record_pause(&mut self, destination: DestinationId, until: Timestamp) {
        self.paused.insert(destination, until);
    }

    /// Records that an operator has resumed a destination.
    pub(crate) fn record_resume(&mut self, destination: DestinationId) {
        self.paused.remove(&destination);
    }

    /// Forgets receivers without claimable rows if there are too many.
    pub(crate) fn trim_receivers(&mut self) {
        let Self { first_attempts, retries, receivers, .. } = self;
        receivers.trim(|destination| {
            first_attempts.first_range(destination).is_some() || retries.first_range(destination).is_some()
        });
    }

    fn is_paused(&self, destination: DestinationId, now: Timestamp) -> bool {
        self.paused.get(&destination).is_some_and(|until| *until > now)
    }

    /// Forgets pauses that have ended.
    pub(crate) fn remove_ended_pauses(&mut self, now: Timestamp) {
        self.paused.retain(|_, until| *until > now);
    }

    /// Removes the part of a range that a claim has used up. Returns this part if it contains rows that other transactions
    /// have locked.
    pub(crate) fn record_claimed(
        &mut self,
        claim: &RangeClaim,
        result: &RangeResult,
    ) -> Option<PositionRange> {
        let range = claim.range;
        let is_retry = range.high >= RETRY_POSITION_MIN;
        let used_to = match (result.granted_to, result.remainder) {
            // A payload did not fit. All rows before it have been granted, or other claims hold them.
            (_, Some(UngrantedRows { first_left: Some(left), .. })) => left - 1,
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
    pub(crate) fn restore_locked(
        &mut self,
        locked: impl IntoIterator<Item = (DestinationId, PositionRange)>,
    ) {
        for (destination, range) in locked {
            self.ranges_of(range.high).add_range(destination, range);
        }
    }
}
