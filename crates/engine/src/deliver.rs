//! One delivery, from a granted lease to a written result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_domain::{AttemptResult, ErrorClass, Lease, Outcome, Transition};
use posthaste_store::{LeaseRef, SettleResult};

use crate::attempt_log::{log_attempt, log_circuit};
use crate::circuits::{Admission, CircuitChange};
use crate::claim::release_leases;
use crate::heartbeat::RenewalGuard;
use crate::observe::AttemptEvent;
use crate::phase::Phase;
use crate::sender::LocalShortage;
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

/// A delivery that a drain interrupted before its result was written. It keeps its slot until the release of its lease
/// begins, so that the drain report always counts the lease.
pub(crate) struct InterruptedDelivery {
    pub(crate) lease: LeaseRef,
    _slot: Slot,
}

/// Why a delivery has no result.
enum Unsent {
    /// A drain interrupted the request.
    Interrupted,
    /// This host lacked a resource, so no request was sent.
    Shortage(LocalShortage),
}

/// Sends the event, decides on its next state, settles and reports. The heartbeat and the slot are dropped last,
/// after the settle has committed.
pub(crate) async fn deliver(worker: Arc<Worker>, delivery: Delivery) -> Option<InterruptedDelivery> {
    let Delivery { lease, admission, renewal, slot } = delivery;
    let result = match send(&worker, &lease).await {
        Ok(result) => result,
        Err(Unsent::Interrupted) => {
            return Some(InterruptedDelivery { lease: LeaseRef::from(&lease), _slot: slot });
        }
        Err(Unsent::Shortage(shortage)) => {
            report_shortage(&worker, &lease, shortage);
            // From here on, `release_leases` counts the lease instead of the slot.
            drop((admission, slot));
            renewal.mark_settling();
            release_leases(&worker, &[LeaseRef::from(&lease)]).await;
            drop(renewal);
            return None;
        }
    };
    let transition = decide(&worker, &lease, admission, result);
    let settled = settle(&worker, &renewal, &transition).await;
    report(&worker, &lease, &transition, settled);
    if settled.is_none() && worker.phases.current() == Phase::Interrupted {
        // The process ends before the result is written. Without its lease, the event loses none when it is claimed again.
        worker.drain.count_unwritten();
        return Some(InterruptedDelivery { lease: LeaseRef::from(&lease), _slot: slot });
    }
    drop((renewal, slot));
    None
}

/// Sends the request. A sender that hangs or panics yields an outcome like any other.
async fn send(worker: &Worker, lease: &Lease) -> Result<AttemptResult, Unsent> {
    let clock = &worker.ports.clock;
    let timeout = worker.settings.timeout;
    let started_at = clock.monotonic();
    let now =
        worker.store_time.at(started_at).expect("the claim that granted the lease read the store's clock");
    let sending =
        AssertUnwindSafe(async { worker.ports.sender.send(lease, now, timeout).await }).catch_unwind();
    let outcome = tokio::select! {
        biased;
        sent = sending => match sent {
            Ok(sent) => sent.map_err(Unsent::Shortage)?,
            Err(_) => Outcome::no_response(ErrorClass::Panic, "the sender panicked"),
        },
        () = clock.sleep(timeout + TIMEOUT_GRACE) => {
            Outcome::no_response(ErrorClass::Timeout, &format!("no result within {timeout:?}"))
        }
        () = worker.phases.reached(Phase::Interrupted) => return Err(Unsent::Interrupted),
    };
    Ok(AttemptResult { outcome, duration: clock.monotonic().saturating_sub(started_at) })
}

/// Slows sending down, and logs the shortage if it is new or has lasted another minute.
fn report_shortage(worker: &Worker, lease: &Lease, shortage: LocalShortage) {
    let (in_flight, now) = (worker.slots.in_flight(), worker.ports.clock.monotonic());
    worker.ports.observer.on_local_shortage(shortage);
    if let Some(unsent) = worker.shortages.record(shortage, lease.destination_id, in_flight, now) {
        tracing::warn!(worker_id = %worker.settings.worker_id, resource = shortage.as_str(), unsent,
            advice = %shortage, "requests were not sent for lack of a local resource; their events lose no attempt");
    }
}

/// Records the outcome in the circuit and computes the transition.
fn decide(worker: &Worker, lease: &Lease, admission: Admission, result: AttemptResult) -> Arc<Transition> {
    let change = admission.record(&result.outcome, worker.ports.clock.monotonic());
    log_circuit(&worker.settings.worker_id, lease, change);
    if matches!(change, CircuitChange::AllowsProbe | CircuitChange::Closed { .. }) {
        worker.slots.wake();
    }
    Arc::new(Transition::from_attempt(lease, result, &worker.settings.policy, worker.ports.random.draw()))
}

/// Writes the transition. None means that a drain ended before the store accepted it, or that the write panicked.
async fn settle(
    worker: &Worker,
    renewal: &RenewalGuard,
    transition: &Arc<Transition>,
) -> Option<SettleResult> {
    renewal.mark_settling();
    worker.settler.settle(Arc::clone(transition), worker.ports.clock.monotonic()).await
}

/// Passes the same transition to the cycle counters, the metrics, the log, the claimer and the publisher.
fn report(worker: &Worker, lease: &Lease, transition: &Transition, settled: Option<SettleResult>) {
    worker.cycle.count_attempt(transition, settled);
    worker.ports.observer.on_attempt(&AttemptEvent { lease, transition, settled });
    log_attempt(&worker.settings.worker_id, lease, transition, settled);
    if settled == Some(SettleResult::Stale) {
        tracing::warn!(event_id = %transition.event_id(), worker_id = %worker.settings.worker_id,
            outcome = transition.label(), "stale write refused: the lease was lost before the result was written");
    }
    if !settled.is_some_and(SettleResult::is_written) {
        return;
    }
    if let Some(delay) = transition.retry_after() {
        worker.due_times.add(delay, worker.ports.clock.monotonic());
    }
    if transition.notice_kind().is_some() {
        worker.publisher.wake();
    }
}
