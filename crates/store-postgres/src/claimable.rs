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

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, EventKey, Timestamp};

pub(crate) use gaps::{Gaps, ServerSnapshot};
pub(crate) use plan::{ClaimBudget, ClaimPlan, RangeClaim};
pub(crate) use ranges::{DestinationRanges, PositionRange};

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

/// An index of the rows that this process believes to be claimable: new, due for a retry, or with an expired lease.
#[derive(Debug, Default)]
pub(crate) struct ClaimableIndex {
    pub(crate) first_attempts: DestinationRanges,
    pub(crate) retries: DestinationRanges,
    pub(crate) expired: BTreeMap<EventKey, ExpiredLease>,
    /// Destinations that a claim found paused, with the end of the pause.
    paused: BTreeMap<DestinationId, Timestamp>,
}

impl ClaimableIndex {
    /// Returns the ranges that hold this queue position: those of first attempts or those of retries.
    fn ranges_of(&mut self, position: i64) -> &mut DestinationRanges {
        if position < RETRY_POSITION_MIN { &mut self.first_attempts } else { &mut self.retries }
    }

    /// Adds a row that discovery found unleased.
    pub(crate) fn record_row(&mut self, destination: DestinationId, position: i64) {
        self.ranges_of(position).record_row(destination, position);
    }

    /// Records that a destination is paused. Claims leave it out until the pause ends.
    pub(crate) fn record_pause(&mut self, destination: DestinationId, until: Timestamp) {
        self.paused.insert(destination, until);
    }

    /// Records that an operator has resumed a destination.
    pub(crate) fn record_resume(&mut self, destination: DestinationId) {
        self.paused.remove(&destination);
    }

    fn is_paused(&self, destination: DestinationId, now: Timestamp) -> bool {
        self.paused.get(&destination).is_some_and(|until| *until > now)
    }

    /// Forgets pauses that have ended.
    pub(crate) fn remove_ended_pauses(&mut self, now: Timestamp) {
        self.paused.retain(|_, until| *until > now);
    }

    /// Removes the part of a range that a claim has used up. The claim was granted `granted` rows, the last of them at
    /// `last_position`.
    pub(crate) fn record_claimed(&mut self, claim: &RangeClaim, granted: usize, last_position: Option<i64>) {
        let range = claim.range;
        let is_retry = range.high >= RETRY_POSITION_MIN;
        let used_to = match last_position {
            // Several retries may share a position, and the claim may have returned only some of them.
            Some(last) if granted >= claim.limit => last - i64::from(is_retry),
            // The claim returned fewer rows than its limit: the range holds no more.
            _ => range.high,
        };
        self.ranges_of(range.high)
            .remove_range(claim.destination, PositionRange { low: range.low, high: used_to });
    }
}
