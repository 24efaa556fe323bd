//! The interface for metrics. An observer receives the same values that the log lines are made from.

use std::sync::{Arc, Weak};
use std::time::Duration;

use posthaste_domain::{ApplicationId, DisableReason, Lease, Transition};
use posthaste_store::SettleResult;

use crate::clock_skew::ClockSkew;
use crate::sender::LocalShortage;
use crate::settle::WriteFailure;
use crate::worker::Worker;

/// Callbacks for attempts, lost leases, abandoned or expired events, and disabled endpoints of a worker. The engine calls them inline, so
/// they must return quickly. The default of each callback does nothing.
pub trait Observer: Send + Sync + 'static {
    /// Called when an attempt has been settled, or when a drain ended before its result was written.
    fn on_attempt(&self, _attempt: &AttemptEvent<'_>) {}

    /// Called when a delivery in flight has lost its lease: the store refused the renewal, or no renewal succeeded
    /// before the lease expired by the worker's clock.
    fn on_lease_lost(&self) {}

    /// Called when a claim has dead-lettered this many events as abandoned, because each had lost too many leases in a
    /// row.
    fn on_abandoned(&self, _events: usize) {}

    /// Called when a walk has dead-lettered this many events as expired.
    fn on_expired(&self, _events: usize) {}

    /// Called when the worker has found that a result disabled an endpoint. Several workers may find the same endpoint.
    fn on_endpoint_disabled(&self, _reason: DisableReason) {}

    /// Called when a request was not sent because this host lacked a resource. Its event is due as before.
    fn on_local_shortage(&self, _shortage: LocalShortage) {}
}

/// One finished attempt: the lease, its application, the transition, and what the store did with it.
#[derive(Debug, Clone, Copy)]
pub struct AttemptEvent<'a> {
    pub lease: &'a Lease,
    /// The application of the endpoint. None if the event was enqueued to a URL.
    pub app: Option<ApplicationId>,
    pub transition: &'a Transition,
    /// None if a drain ended before the store had written the result.
    pub settled: Option<SettleResult>,
}

impl AttemptEvent<'_> {
    /// Returns how long the event had been due when it was claimed. A claim takes only events that can be sent at
    /// once, so this is also how late the request was sent.
    pub fn lag(&self) -> Duration {
        self.lease.overdue
    }
}

/// The observer that ignores everything.
impl Observer for () {}

/// A handle to read the health of a worker. It is cheap to clone. It may outlive its worker; the counts are then zero.
#[derive(Clone)]
pub struct WorkerHealth(Weak<Worker>);

impl WorkerHealth {
    pub(crate) fn new(worker: &Arc<Worker>) -> Self {
        Self(Arc::downgrade(worker))
    }

    /// Returns the number of deliveries being sent, settled or released.
    pub fn in_flight(&self) -> usize {
        self.0.upgrade().map_or(0, |worker| worker.in_flight())
    }

    /// Returns the number of destinations whose circuit is open or half open.
    pub fn circuits_open(&self) -> usize {
        self.0.upgrade().map_or(0, |worker| worker.circuits.open_count(worker.ports.clock.monotonic()))
    }

    /// Returns the resource of this host that requests of the last minute lacked, if any did.
    pub fn local_shortage(&self) -> Option<LocalShortage> {
        self.0.upgrade().and_then(|worker| worker.shortages.current(worker.ports.clock.monotonic()))
    }

    /// Returns how far this host's clock was from the store's at the last claim. None before the first one.
    pub fn clock_skew(&self) -> Option<ClockSkew> {
        self.0.upgrade().and_then(|worker| worker.store_time.skew())
    }

    /// Returns the number of results that the store has refused or has not answered in time.
    pub fn unwritten_results(&self) -> usize {
        self.0.upgrade().map_or(0, |worker| worker.settler.delayed())
    }

    /// Returns why results cannot be written, if one was refused or is overdue. The worker claims nothing then.
    pub fn write_failure(&self) -> Option<WriteFailure> {
        self.0.upgrade().and_then(|worker| worker.settler.failure())
    }

    /// Returns the time since the store last answered a claim, or since the worker last had no slot to claim for.
    /// None if the worker no longer exists.
    pub fn since_claim(&self) -> Option<Duration> {
        let worker = self.0.upgrade()?;
        Some(worker.ports.clock.monotonic().saturating_sub(worker.last_claim_at()))
    }
}
