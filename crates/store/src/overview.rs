//! The outbox at a glance.

use std::time::Duration;

/// Counts at one snapshot of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overview {
    pub pending: u64,
    /// Pending, due, and not under a live lease.
    pub pending_ready: u64,
    /// Pending with at least one attempt made.
    pub retrying: u64,
    pub failed: u64,
    pub delivered: u64,
    /// Since the oldest pending event was created; none when nothing is pending.
    pub oldest_pending_age: Option<Duration>,
}
