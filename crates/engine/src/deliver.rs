//! One delivery, from a granted lease to a written result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_domain::{AttemptResult, ErrorClass, Lease, Outcome, Transition};
use posthaste_store::{LeaseRef, SettleResult};

use crate::circuits::Admission;
use crate::heartbeat::RenewalGuard;
use crate::observe::AttemptEvent;
use crate::phase::Phase;
use crate::slots::Slot;
use crate::worker::Worker;

/// Time that a sender gets beyond the timeout to return its own, more precise outcome.
const TIMEOUT_GRACE: Duration = Duration::from_millis(250);

/// A lease and the resources that its delivery holds. Dropping it releases the slot, withdraws the circuit's
/// admission and stops the heartbeat.
pub(crate) struct Delivery {
    pub(crate) lease: Lease,
    pub(crate) admission: Admission,
    pub(crate) renewal: RenewalGuard,
    pub(crate) slot: Slot,
}

/// A delivery that a drain interrupted before it had a result. It keeps its slot until the release of its lease
/// begins, so that the drain report always counts the lease.
pub(crate) struct InterruptedDelivery {
    pub(crate) lease: LeaseRef,
    _slot: Slot,
}

/// Sends the event, decides on its next state, settles and reports. The heartbeat and the slot are dropped last,
/// after the settle has committed.
pub(crate) async fn deliver(worker: Arc<Worker>, delivery: Delivery) -> Option<InterruptedDelivery> {
    let Delivery { lease, admission, renewal, slot } = delivery;
    let Some(result) = send(&worker, &lease).await else {
        return Some(InterruptedDelivery { lease: LeaseRef::from(&lease), _slot: slot });
    };
    let transition = decide(&worker, &lease, admission, result);
    let settled = settle(&worker, &renewal, &transition).await;
    report(&worker, &lease, &transition, settled);
    drop((renewal, slot));
    None
}

/// Sends the request. A sender that hangs or panics yields an outcome like any other; none means that a drain
/// interrupted the request.
async fn send(worker: &Worker, lease: &Lease) -> Option<AttemptResult> {
    let clock = &worker.ports.clock;
    let timeout = worker.settings.timeout;
    let started_at = clock.monotonic();
    let sending = AssertUnwindSafe(async { worker.ports.sender.send(lease, timeout).await }).catch_unwind();
    let outcome = tokio::select! {
        biased;
        outcome = sending => outcome.unwrap_or_else(|_| Outcome::no_response(ErrorClass::Panic, "the sender panicked")),
        () = clock.sleep(timeout + TIMEOUT_GRACE) => {
            Outcome::no_response(ErrorClass::Timeout, &format!("no result within {timeout:?}"))
        }
        () = worker.phases.reached(Phase::Interrupted) => return None,
    };
    Some(AttemptResult { outcome, duration: clock.monotonic().saturating_sub(started_at) })
}

/// Records the outcome in the circuit and computes the transition.
fn decide(worker: &Worker, lease: &Lease, admission: Admission, result: AttemptResult) -> Arc<Transition> {
    let health = result.outcome.health();
    let allows_more = admission.record(health, worker.ports.clock.monotonic());
    if allows_more {
        worker.slots.wake();
    }
    Arc::new(Transition::from_attempt(lease, result, &worker.settings.policy, worker.ports.random.draw()))
}

/// Writes the transition. None means that the store refused it; the lease then expires.
async fn settle(
    worker: &Worker,
    renewal: &RenewalGuard,
    transition: &Arc<Transition>,
) -> Option<SettleResult> {
    renewal.mark_settling();
    worker.settler.settle(Arc::clone(transition), worker.ports.clock.monotonic()).await
}

/// Passes the same transition to the cycle counters, the metrics, the log and the publisher.
fn report(worker: &Worker, lease: &Lease, transition: &Transition, settled: Option<SettleResult>) {
    worker.cycle.count_attempt(transition, settled);
    worker.ports.observer.on_attempt(&AttemptEvent { lease, transition, settled });
    let written = settled.is_some_and(SettleResult::is_written);
    // The destination's URL is not logged: its path is often a secret.
    tracing::debug!(
        event_id = %transition.event_id(),
        event_type = lease.event_type,
        destination_id = lease.destination_id.0,
        worker_id = %worker.settings.worker_id,
        attempt = transition.attempt(),
        outcome = transition.label(),
        bucket = transition.outcome().bucket().as_str(),
        http_status = transition.outcome().http_status(),
        error_class = transition.outcome().error_class().map(ErrorClass::as_str),
        lag_ms = millis(lease.overdue),
        duration_ms = millis(transition.duration()),
        retry_after_ms = transition.retry_after().map(millis),
        written,
        "attempt"
    );
    if settled == Some(SettleResult::Stale) {
        tracing::warn!(event_id = %transition.event_id(), worker_id = %worker.settings.worker_id,
            outcome = transition.label(), "stale write refused: the lease was lost before the result was written");
    }
    if written && transition.notice_kind().is_some() {
        worker.publisher.wake();
    }
}

/// Milliseconds as `u64`, because `tracing` formats a `u128` as text.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
