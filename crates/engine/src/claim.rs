//! Fills free slots, without rounds: as soon as one is free, and with nothing that could not be sent at once.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::Lease;
use posthaste_store::{ClaimRequest, HeldLease, StoreError};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::deliver::{Delivery, deliver};
use crate::phase::Phase;
use crate::worker::Worker;

/// Deliveries under way; each returns its lease if it was interrupted. Dropping it aborts them.
type Deliveries = JoinSet<Option<HeldLease>>;

/// Claims until the worker drains, then sees what is in flight to its end.
pub(crate) async fn run(worker: Arc<Worker>) {
    let mut deliveries = Deliveries::new();
    let mut wakeups = worker.ports.store.wakeups();
    let mut backoff = Backoff::new();
    // A claim under way is never given up: the leases it brings would be nobody's until they expire.
    while worker.phases.current() == Phase::Running {
        while deliveries.try_join_next().is_some() {}
        let filled = claim(&worker, &mut deliveries).await;
        if filled.is_ok() {
            backoff.reset();
        }
        let clock = &worker.ports.clock;
        let next = async {
            match filled {
                Ok(Filled::More) => {}
                Ok(Filled::Full) => worker.slots.freed().await,
                Ok(Filled::Enough) => tokio::select! {
                    biased;
                    () = worker.slots.freed() => {}
                    () = wakeups.woken() => {}
                    () = clock.sleep(worker.settings.poll_interval) => {}
                },
                Err(error) => {
                    tracing::warn!(worker_id = %worker.settings.worker_id, code = error.code(), %error,
                        "nothing could be claimed; trying again");
                    clock.sleep(backoff.next()).await;
                }
            }
        };
        tokio::select! {
            biased;
            () = worker.phases.reached(Phase::Draining) => {}
            () = next => {}
        }
    }
    finish(&worker, deliveries).await;
}

/// One claim, delivered to its end.
pub(crate) async fn once(worker: Arc<Worker>) -> Result<(), StoreError> {
    let mut deliveries = Deliveries::new();
    claim(&worker, &mut deliveries).await?;
    finish(&worker, deliveries).await;
    Ok(())
}

/// How a claim left the worker.
enum Filled {
    /// No slot is free.
    Full,
    /// Slots are free, and there may be more to fill them with.
    More,
    /// Slots are free, and nothing is due that could be sent.
    Enough,
}

async fn claim(worker: &Arc<Worker>, deliveries: &mut Deliveries) -> Result<Filled, StoreError> {
    let request = plan(worker);
    if request.limit == 0 {
        return Ok(Filled::Full);
    }
    let claimed_at = worker.ports.clock.monotonic();
    let claimed = worker.ports.store.claim(&request).await?;
    worker.cycle.claimed(&claimed);
    for event_id in &claimed.abandoned {
        tracing::error!(%event_id, worker_id = %worker.settings.worker_id, "event abandoned: it lost too many leases in a row");
    }
    if !claimed.abandoned.is_empty() {
        worker.publisher.look();
    }
    let asked_for_all = claimed.leases.len() == request.limit;
    let mut refused = Vec::new();
    for lease in claimed.leases {
        match prepare(worker, lease, claimed_at) {
            Ok(delivery) => drop(deliveries.spawn(deliver(Arc::clone(worker), delivery))),
            Err(held) => refused.push(held),
        }
    }
    give_back(worker, &refused).await;
    Ok(if asked_for_all { Filled::More } else { Filled::Enough })
}

/// What can be sent right now: within the slots, and where no circuit is open.
fn plan(worker: &Worker) -> ClaimRequest {
    let free = worker.slots.free();
    let mut free_slots = free.by_destination;
    for (destination, allowed) in worker.circuits.allowed(worker.ports.clock.monotonic()) {
        let slots = free_slots.entry(destination).or_insert(worker.settings.per_destination);
        *slots = (*slots).min(allowed);
    }
    ClaimRequest {
        owner: worker.settings.worker_id.clone(),
        lease: worker.settings.lease.duration(),
        limit: free.total,
        retries_max: free.retries,
        per_destination: worker.settings.per_destination,
        free_slots,
        abandon_after: worker.settings.abandon_after,
    }
}

/// Takes a slot and starts the heartbeat, unless the circuit has opened since the claim was planned.
fn prepare(worker: &Worker, lease: Lease, claimed_at: Duration) -> Result<Delivery, HeldLease> {
    match worker.circuits.admit(lease.destination_id, worker.ports.clock.monotonic()) {
        None => Err(HeldLease::from(&lease)),
        Some(admission) => Ok(Delivery {
            slot: worker.slots.take(&lease),
            beating: worker.heartbeat.hold(&lease, claimed_at),
            admission,
            lease,
        }),
    }
}

/// Waits for every delivery, and gives back together the leases of those that were interrupted.
async fn finish(worker: &Worker, mut deliveries: Deliveries) {
    let mut interrupted = Vec::new();
    while let Some(ended) = deliveries.join_next().await {
        interrupted.extend(ended.ok().flatten());
    }
    give_back(worker, &interrupted).await;
}

/// Leases that cannot be given back expire by themselves.
async fn give_back(worker: &Worker, held: &[HeldLease]) {
    if held.is_empty() {
        return;
    }
    if let Err(error) = worker.ports.store.release(held).await {
        tracing::warn!(worker_id = %worker.settings.worker_id, code = error.code(), %error, leases = held.len(),
            "leases were not released; their events wait until they expire");
    }
}
