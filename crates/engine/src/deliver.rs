//! One delivery, from a granted lease to a written result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_domain::{Attempted, ErrorClass, Lease, Outcome, Transition};
use posthaste_store::{HeldLease, Settled};

use crate::circuits::Admission;
use crate::heartbeat::Renewing;
use crate::observe::AttemptSeen;
use crate::phase::Phase;
use crate::slots::Slot;
use crate::worker::Worker;

/// A sender that keeps its own deadline gets this much longer to say so.
const TIMEOUT_GRACE: Duration = Duration::from_millis(250);

/// A lease with everything that is held while it is attempted. Dropping it gives all of it back.
pub(crate) struct Delivery {
    pub(crate) lease: Lease,
    pub(crate) admission: Admission,
    pub(crate) renewing: Renewing,
    pub(crate) slot: Slot,
}

/// A lease that was interrupted before there was a result. It keeps its slot until someone sees to its release.
pub(crate) struct Unsent {
    pub(crate) held: HeldLease,
    _slot: Slot,
}

/// Sends, decides, settles and reports. The heartbeat and the slot are let go last, after the settle has committed.
pub(crate) async fn deliver(worker: Arc<Worker>, delivery: Delivery) -> Option<Unsent> {
    let Delivery { lease, admission, renewing, slot } = delivery;
    let Some(attempted) = send(&worker, &lease).await else {
        return Some(Unsent { held: HeldLease::from(&lease), _slot: slot });
    };
    let transition = decide(&worker, &lease, admission, attempted);
    let settled = settle(&worker, &renewing, &transition).await;
    report(&worker, &lease, &transition, settled);
    drop((renewing, slot));
    None
}

/// A hanging or panicking sender is an outcome like any other; only an interrupted one is none.
async fn send(worker: &Worker, lease: &Lease) -> Option<Attempted> {
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
    Some(Attempted { outcome, duration: clock.monotonic().saturating_sub(started_at) })
}

fn decide(worker: &Worker, lease: &Lease, admission: Admission, attempted: Attempted) -> Arc<Transition> {
    let health = attempted.outcome.health();
    if admission.answer(health, worker.ports.clock.monotonic()) {
        worker.slots.loosened();
    }
    Arc::new(Transition::of(lease, attempted, &worker.settings.policy, worker.ports.chance.roll()))
}

/// None when the store refused it, and the lease is left to expire.
async fn settle(worker: &Worker, renewing: &Renewing, transition: &Arc<Transition>) -> Option<Settled> {
    renewing.settling();
    worker.settler.settle(Arc::clone(transition), worker.ports.clock.monotonic()).await
}

/// The counters, the metrics, the log line and the followers hear of the same transition.
fn report(worker: &Worker, lease: &Lease, transition: &Transition, settled: Option<Settled>) {
    worker.cycle.count(transition, settled);
    worker.ports.observer.attempted(&AttemptSeen { lease, transition, settled });
    let written = settled.is_some_and(Settled::is_written);
    // No URL: the path of one is often a secret.
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
    if settled == Some(Settled::Stale) {
        tracing::warn!(event_id = %transition.event_id(), worker_id = %worker.settings.worker_id,
            outcome = transition.label(), "stale write refused: the lease was lost before the result was written");
    }
    if written && transition.notice().is_some() {
        worker.publisher.look();
    }
}

/// As a number: a log keeps longer ones as text.
fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
