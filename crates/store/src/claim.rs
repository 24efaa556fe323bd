//! What a worker asks for and is granted.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{ClaimId, DestinationId, EventId, EventKey, Lease, LeaseToken, WorkerId};

/// A worker asks only for what it can send at once.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// A claim asked again under the same id brings the leases that it was granted the first time and that are
    /// still its own, extended to their full length and counting nothing; only if there are none does it claim anew.
    /// So a reply that gets lost costs no event a lease. Two calls under one id are served one after the other.
    pub id: ClaimId,
    pub owner: WorkerId,
    /// How long each lease lasts unless renewed.
    pub lease: Duration,
    /// Free slots in total: no more leases than this.
    pub limit: usize,
    /// No more retries than this among them; the rest are first attempts.
    pub retries_max: usize,
    /// Free slots of any destination that `free_slots` does not name.
    pub per_destination: usize,
    /// Free slots of particular destinations. Zero excludes: saturated, or its circuit is open.
    pub free_slots: BTreeMap<DestinationId, usize>,
    /// An event that loses this many leases in a row is dead-lettered instead of granted again.
    pub abandon_after: u32,
}

impl ClaimRequest {
    /// Slots free for one destination.
    pub fn free_slots_of(&self, destination: DestinationId) -> usize {
        self.free_slots.get(&destination).copied().unwrap_or(self.per_destination)
    }
}

/// What a claim did.
#[derive(Debug, Clone, Default)]
pub struct Claimed {
    pub leases: Vec<Lease>,
    /// Events dead-lettered because they lost too many leases in a row. Named once, also when the claim is asked again.
    pub abandoned: Vec<EventId>,
}

/// The part of a lease that proves it: which row, under which token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeldLease {
    pub key: EventKey,
    pub token: LeaseToken,
}

impl From<&Lease> for HeldLease {
    fn from(lease: &Lease) -> Self {
        Self { key: lease.key, token: lease.token }
    }
}
