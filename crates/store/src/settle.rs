//! The request and the result of a settle.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::Transition;

/// A request to write the result of one attempt.
#[derive(Debug, Clone)]
pub struct Settlement {
    pub transition: Arc<Transition>,
    /// Time since the attempt ended. It lets a settle that an outage delayed still record when the attempt ended.
    pub ended_ago: Duration,
}

/// What the store did with one settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SettleResult {
    /// The store wrote the transition.
    Applied,
    /// An earlier call wrote the transition, but its response was lost. Nothing changed.
    Replayed,
    /// The worker no longer holds the lease: it was taken over, released or cancelled. The event did not change. Its
    /// history shows the attempt as not applied, once, however often the settlement is repeated.
    Stale,
}

impl SettleResult {
    /// Returns true if the transition is stored, by this call or an earlier one.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Applied | Self::Replayed)
    }
}
