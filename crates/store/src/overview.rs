//! Counts of events by state.

use std::time::Duration;

use crate::destination::PendingCount;

/// The number of events in each state, from one snapshot of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overview {
    pub pending: u64,
    /// Pending events that are due and not leased.
    pub pending_ready: u64,
    /// Pending events with at least one attempt made.
    pub retrying: u64,
    pub failed: u64,
    /// The part of the failed events that an operator cancelled.
    pub cancelled: u64,
    pub delivered: u64,
    /// Pending events without a lease whose destination is paused or has an open circuit, up to
    /// [`HELD_COUNT_MAX`](crate::HELD_COUNT_MAX).
    pub held: PendingCount,
    /// Age of the oldest pending event, or `None` if no event is pending.
    pub oldest_pending_age: Option<Duration>,
}
