//! One delivery, from a claimed event to a submitted result.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use posthaste_domain::{ApplicationId, AttemptResult, ErrorClass, Lease, Outcome, Transition};
use posthaste_store::LeaseRef;

use crate::attempt_log::log_circuit;
use crate::circuits::{Admission, CircuitChange};
use crate::phase::Phase;
use crate::profiles::{NoProfile, ProfileInUse};
use crate::release::{release_events, release_leases};
use crate::sender::LocalShortage;
use crate::settle::FinishedDelivery;
use crate::slots::{Answer, ClaimedEvent, ReadyEvent, Slot};
use crate::worker::Worker;

/// Time that a sender gets beyond the timeout to return its own, more precise outcome.
const TIMEOUT_GRACE: Duration = Duration::from_millis(250);

/// A delivery that a drain interrupted. It keeps its slot until the release of its lease begins, so that the drain report
/// always counts the lease.
pub(crate) struct InterruptedDelivery {
    pub(crate) lease: LeaseRef,
    _slot: Slot,
}

/// A request that has ended.
struct SentRequest {
    result: AttemptResult,
    /// The application of an endpoint. None if the destination is a URL.
    app: Option<ApplicationId>,
}

/// Why a delivery has no result.
enum Unsent {
    /// A drain interrupted the request.
    Interrupted,
    /// This host lacked a resource, so no request was sent.
    Shortage(LocalShortage),
    /// The keys and headers of the destination cannot be read.
    NoProfile,
}

/// Sends the event, decides on its next state and submits the result to the settler. The slot is free when the answer has
/// arrived; the heartbeat goes on until the result is written. Returns the events that may be sent next.
pub(crate) async fn deliver(
    worker: &Arc<Worker>,
    ready: ReadyEvent,
) -> Result<Vec<ReadyEvent>, InterruptedDelivery> {
    let ReadyEvent { event, slot } = ready;
    let now = worker.ports.clock.monotonic();
    let admission = match worker.circuits.admit(event.lease.destination_id, now) {
        Some(admission) if !worker.is_outdated(event.requested_at) => admission,
        // The circuit opened after the event was claimed, or the event waited too long.
        _ => {
            drop(slot);
            release_events(worker, vec![event]).await;
            return Ok(Vec::new());
        }
    };
    let ClaimedEvent { lease, renewal, requested_at, claimed_at } = event;
    let SentRequest { result, app } = match send(worker, &lease, claimed_at).await {
        Ok(sent) => sent,
        Err(Unsent::Interrupted) => {
            return Err(InterruptedDelivery { lease: LeaseRef::from(&lease), _slot: slot });
        }
        Err(unsent @ (Unsent::Shortage(_) | Unsent::NoProfile)) => {
            if let Unsent::Shortage(shortage) = unsent {
                report_shortage(worker, &lease, shortage);
            }
            // From here on, the release counts the lease instead of the slot.
            drop((admission, slot));
            release_events(worker, vec![ClaimedEvent { lease, renewal, requested_at, claimed_at }]).await;
            return Ok(Vec::new());
        }
    };
    let now = worker.ports.clock.monotonic();
    let (answer, took) = (Answer::from_outcome(&result.outcome), result.duration);
    let (transition, change) = decide(worker, &lease, admission, result);
    // The payload is not needed any more; results that wait for the store hold no memory for it.
    let lease = Lease { payload: lease.payload.unload(), ..lease };
    let destination = lease.destination_id;
    // The slot becomes free before the store knows of a pause.
    let held = transition.destination_pause().map(|_| worker.slots.hold(destination));
    worker.settler.submit(FinishedDelivery { lease, app, transition, renewal }, now);
    let mut after = worker.slots.record_answer(slot, answer, took, now);
    after.unsent.extend(held.into_iter().flatten());
    if matches!(change, CircuitChange::Opened { .. }) {
        after.unsent.extend(worker.slots.restart_window(destination));
    }
    release_events(worker, after.unsent).await;
    Ok(after.ready)
}

/// Sends the request. A sender that hangs or panics yields an outcome like any other.
async fn send(worker: &Worker, lease: &Lease, claimed_at: Duration) -> Result<SentRequest, Unsent> {
    let profile = hold_profile(worker, lease, claimed_at).await?;
    let clock = &worker.ports.clock;
    let timeout = worker.settings.timeout;
    let started_at = clock.monotonic();
    let now = worker.store_time.at(started_at).expect("the first claim read the store's clock");
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
    let result = AttemptResult { outcome, duration: clock.monotonic().saturating_sub(started_at) };
    Ok(SentRequest { result, app: profile.as_ref().and_then(ProfileInUse::app) })
}

/// Holds the keys and headers of the destination for the request.
async fn hold_profile(
    worker: &Worker,
    lease: &Lease,
    claimed_at: Duration,
) -> Result<Option<ProfileInUse>, Unsent> {
    if lease.profile_version == 0 {
        return Ok(None);
    }
    tokio::select! {
        biased;
        held = worker.ports.profiles.resolve(worker, lease, claimed_at) => held.map_err(|NoProfile| Unsent::NoProfile),
        () = worker.phases.reached(Phase::Interrupted) => Err(Unsent::Interrupted),
    }
}

/// Slows sending down, and logs the shortage if it is new or has lasted another minute.
fn report_shortage(worker: &Worker, lease: &Lease, shortage: LocalShortage) {
    let (in_flight, now) = (worker.slots.used(), worker.ports.clock.monotonic());
    worker.ports.observer.on_local_shortage(shortage);
    if let Some(unsent) = worker.shortages.record(shortage, lease.destination_id, in_flight, now) {
        tracing::warn!(worker_id = %worker.settings.worker_id, resource = shortage.as_str(), unsent,
            advice = %shortage, "requests were not sent for lack of a local resource; their events lose no attempt");
    }
}

/// Records the outcome in the circuit and computes the transition.
fn decide(
    worker: &Worker,
    lease: &Lease,
    admission: Admission,
    result: AttemptResult,
) -> (Arc<Transition>, CircuitChange) {
    let change = admission.record(&result.outcome, worker.ports.clock.monotonic());
    log_circuit(&worker.settings.worker_id, lease, change);
    if matches!(change, CircuitChange::AllowsProbe | CircuitChange::Closed { .. }) {
        worker.slots.wake();
    }
    let draw = worker.ports.random.draw();
    (Arc::new(Transition::from_attempt(lease, result, &worker.settings.policy, draw)), change)
}

/// Releases the leases of interrupted deliveries. `release_leases` counts them instead of their slots.
pub(crate) async fn release_interrupted(worker: &Worker, interrupted: Vec<InterruptedDelivery>) {
    let leases: Vec<LeaseRef> = interrupted.into_iter().map(|delivery| delivery.lease).collect();
    release_leases(worker, &leases).await;
}
