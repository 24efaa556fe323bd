//! A delivery whose request has ended, and what follows when its result is written.

use std::sync::Arc;

use posthaste_domain::{ApplicationId, Lease, Transition};
use posthaste_store::SettleResult;

use crate::attempt_log::log_attempt;
use crate::heartbeat::RenewalGuard;
use crate::observe::AttemptEvent;
use crate::worker::Worker;

/// A delivery with its result. Its lease is renewed until it is dropped.
pub(crate) struct FinishedDelivery {
    pub(crate) lease: Lease,
    /// The application of an endpoint. None if the destination is a URL.
    pub(crate) app: Option<ApplicationId>,
    pub(crate) transition: Arc<Transition>,
    pub(crate) renewal: RenewalGuard,
}

impl FinishedDelivery {
    pub(super) fn mark_settling(&self) {
        self.renewal.mark_settling();
    }

    /// Passes the transition to the cycle and activity counters, the metrics, the log, the claimer and the publisher. `settled` is what
    /// the store did with it; none if a drain ended before.
    pub(super) fn report(&self, worker: &Worker, settled: Option<SettleResult>) {
        let Self { lease, app, transition, .. } = self;
        if transition.destination_pause().is_some() {
            worker.slots.unhold(lease.destination_id);
        }
        worker.cycle.count_attempt(transition, settled);
        worker.activity.count_attempt(transition, settled);
        worker.ports.observer.on_attempt(&AttemptEvent { lease, app: *app, transition, settled });
        log_attempt(&worker.settings.worker_id, lease, transition, settled);
        if settled == Some(SettleResult::Stale) {
            tracing::warn!(event_id = %transition.event_id(), worker_id = %worker.settings.worker_id,
                outcome = transition.label(), "stale write refused: the lease was lost before the result was written");
        }
        if !settled.is_some_and(SettleResult::is_written) {
            return;
        }
        worker.disabled.record_result(lease, transition, worker.store_now());
        if let Some(delay) = transition.retry_after() {
            worker.due_times.add(delay, worker.ports.clock.monotonic());
        }
        if transition.notice_kind().is_some() {
            worker.publisher.wake();
        }
    }
}
