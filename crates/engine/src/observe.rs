//! Who watches a worker: metrics see what the log sees, from the same values.

use std::sync::{Arc, Weak};
use std::time::Duration;

use posthaste_domain::{Lease, Transition};
use posthaste_store::Settled;

use crate::worker::Worker;

/// Told in line of what a worker does, so it returns at once. What it does not care for, it leaves out.
pub trait Observer: Send + Sync + 'static {
    fn attempted(&self, _attempt: &AttemptSeen<'_>) {}

    /// The store refused to renew it, or did not answer until it should have lapsed.
    fn lease_lost(&self) {}

    /// Events that lost so many leases in a row that they were dead-lettered.
    fn abandoned(&self, _events: usize) {}
}

/// An attempt that has been settled, or could not be.
#[derive(Debug, Clone, Copy)]
pub struct AttemptSeen<'a> {
    pub lease: &'a Lease,
    pub transition: &'a Transition,
    /// None where the store refused to write it.
    pub settled: Option<Settled>,
}

impl AttemptSeen<'_> {
    /// How long the event had been due when it was claimed, which is when it is sent: a claim takes no more than can be
    /// sent at once.
    pub fn lag(&self) -> Duration {
        self.lease.overdue
    }
}

/// Nobody watches.
impl Observer for () {}

/// How a worker is doing right now. Cheap to clone; outlives its worker, and says so.
#[derive(Clone)]
pub struct Pulse(Weak<Worker>);

impl Pulse {
    pub(crate) fn of(worker: &Arc<Worker>) -> Self {
        Self(Arc::downgrade(worker))
    }

    /// Requests being sent, settled or released.
    pub fn in_flight(&self) -> usize {
        self.0.upgrade().map_or(0, |worker| worker.slots.in_flight())
    }

    /// Destinations that are sent nothing, or one request to see whether they have recovered.
    pub fn circuits_open(&self) -> usize {
        self.0.upgrade().map_or(0, |worker| worker.circuits.open(worker.ports.clock.monotonic()))
    }

    /// Since the store last answered a claim, or the worker had no slot to claim for; none when there is no worker.
    pub fn since_claim(&self) -> Option<Duration> {
        let worker = self.0.upgrade()?;
        Some(worker.ports.clock.monotonic().saturating_sub(worker.claimed_at()))
    }
}
