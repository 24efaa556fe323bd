//! One delivery, from a granted lease to a written result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_domain::{Attempted, ErrorClass, Lease, Outcome, Transition};
use posthaste_store::{HeldLease, Settled};

use crate::circuits::Admission;
use crate::heartbeat::Beating;
use crate::phase::Phase;
use crate::slots::Slot;
use crate::worker::Worker;

/// A sender that keeps its own deadline gets this much longer to say so.
const TIMEOUT_GRACE: Duration = Duration::from_millis(250);

/// A lease with everything that is held while it is attempted. Dropping it gives all of it back.
pub(crate) struct Delivery {
    pub(crate) lease: Lease,
    pub(crate) admission: Admission,
    pub(crate) beating: Beating,
    pub(crate) slot: Slot,
}

/// Sends, decides, settles and reports. The heartbeat and the slot are let go last, after the settle has
/// committed. Returns the lease if the worker was interrupted before there was a result.
pub(crate) async fn deliver(worker: Arc<Worker>, delivery: Delivery) -> Option<HeldLease> {
    let Delivery { lease, admission, beating, slot } = delivery;
    let Some(attempted) = send(&worker, &lease).await else { return Some(HeldLease::from(&lease)) };
    let transition = decide(&worker, &lease, admission, attempted);
    let settled = worker.settler.settle(transition.clone(), worker.ports.clock.monotonic()).await;
    report(&worker, &transition, settled);
    drop((beating, slot));
    None
}

/// A hanging or panicking sender is an outcome like any other; only an interrupted one is none.
async fn send(worker: &Worker, lease: &Lease) -> Option<Attempted> {
    let clock = &worker.ports.clock;
    let timeout = worker.settings.timeout;
    let started_at = clock.monotonic();
    let sending = AssertUnwindSafe(worker.ports.sender.send(lease, timeout)).catch_unwind();
    let outcome = tokio::select! {
        biased;
        outcome = sending => outcome.unwrap_or_else(|_| Outcome::no_response(ErrorClass::Panic, "the sender panicked")),
        () = clock.sleep(timeout + TIMEOUT_GRACE) => {
            Outcome::no_response(ErrorClass::Timeout, &format!("no result within {timeout:?}"))
        }
        () = worker.phases.reached(Phase::Interrupted) => return None,
    };
    Some(Attempted { outcome, duration: clock.monotonic().saturating_sub(started_at) })
}

fn decide(worker: &Worker, lease: &Lease, admission: Admission, attempted: Attempted) -> Transition {
    let health = attempted.outcome.health();
    if admission.answer(health, worker.ports.clock.monotonic()) {
        worker.slots.loosened();
    }
    Transition::of(lease, attempted, &worker.settings.policy, worker.ports.chance.roll())
}

/// The counters, the log line and the followers hear of the same transition.
fn report(worker: &Worker, transition: &Transition, settled: Option<Settled>) {
    worker.cycle.count(transition, settled);
    let written = matches!(settled, Some(Settled::Applied | Settled::Replayed));
    tracing::debug!(
        event_id = %transition.event_id(),
        worker_id = %worker.settings.worker_id,
        attempt = transition.attempt(),
        outcome = transition.label(),
        bucket = transition.outcome().bucket().as_str(),
        http_status = transition.outcome().http_status(),
        error_class = transition.outcome().error_class().map(ErrorClass::as_str),
        duration_ms = transition.duration().as_millis(),
        retry_after_ms = transition.retry_after().map(|after| after.as_millis()),
        written,
        "attempt"
    );
    if settled == Some(Settled::Stale) {
        tracing::warn!(event_id = %transition.event_id(), worker_id = %worker.settings.worker_id,
            outcome = transition.label(), "stale write refused: the lease was lost before the result was written");
    }
    if written && transition.notice().is_some() {
        worker.publisher.look();
    }
}
