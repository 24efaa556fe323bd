//! Events that are stored and leased in one commit, and sent without a claim.
//!
//! A producer in the process of a worker enqueues through [`DirectStore`]. If the worker can send the new events at once,
//! places for them are reserved, the store leases them in the commit that stores them, and their deliveries start. One commit
//! then lies between the producer's call and the request. In every other case the events are stored as usual, and claimed.
//!
//! A lost response leaves leases that no worker knows. Their events are due again when the leases expire.

use std::sync::{Arc, Weak};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::Lease;
use posthaste_store::{
    EnqueueLease, EnqueueRequest, EnqueueResponse, LeaseRef, Store, StoreError, StoreLayer,
};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::phase::Phase;
use crate::release::release_unsent;
use crate::slots::{ReadyEvent, Reservation};
use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Number of events of a larger request that are claimed instead. A claim costs little if it is shared by many events.
const EVENTS_MAX: usize = 8;

/// The store of a worker, for producers in its process.
pub(crate) struct DirectStore {
    store: Arc<dyn Store>,
    worker: Weak<Worker>,
    /// The runtime that runs the worker's deliveries.
    runtime: Handle,
}

impl DirectStore {
    pub(crate) fn new(worker: &Arc<Worker>, runtime: Handle) -> Self {
        Self { store: Arc::clone(&worker.ports.store), worker: Arc::downgrade(worker), runtime }
    }

    /// Reserves places for the events of a request, if the worker can send all of them at once.
    fn reserve(&self, request: &EnqueueRequest) -> Option<(Arc<Worker>, Reservation)> {
        let worker = self.worker.upgrade()?;
        let reservation = worker.reserve(request)?;
        Some((worker, reservation))
    }
}

#[async_trait]
impl StoreLayer for DirectStore {
    fn inner(&self) -> &dyn Store {
        &*self.store
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let Some((worker, reservation)) = self.reserve(&request) else {
            return self.store.enqueue(request).await;
        };
        // A task of its own: if the producer gives up waiting, the leases of the commit are still sent.
        let (reply, response) = oneshot::channel();
        self.runtime.spawn(enqueue_and_send(worker, reservation, request, reply));
        let stopped = || StoreError::Unavailable { reason: "the worker has stopped".to_owned() };
        response.await.unwrap_or_else(|_| Err(stopped()))
    }
}

impl Worker {
    /// Reserves places for new events, under the conditions under which the claimer would claim them and start them at once.
    fn reserve(&self, request: &EnqueueRequest) -> Option<Reservation> {
        let (events, now) = (&request.events, self.ports.clock.monotonic());
        let is_small = (1..=EVENTS_MAX).contains(&events.len())
            && events.iter().all(|event| event.payload().len() <= self.settings.small_payload_bytes());
        let is_due = events.iter().all(|event| event.deliver_in().is_zero());
        let is_claiming = self.phases.current() == Phase::Running && !self.is_outdated(self.last_claim_at());
        let has_room = self.unsettled_room() >= events.len()
            && self.shortages.available(self.slots.used(), now).is_ok_and(|room| room >= events.len());
        let may_lease = request.lease.is_none() && self.settler.failure().is_none();
        if !(is_small && is_due && is_claiming && has_room && may_lease) {
            return None;
        }
        let urls: Vec<&str> = events.iter().map(|event| event.destination_url().as_str()).collect();
        let may_send = |destination| {
            self.circuits.send_limit(destination, now).is_none()
                && !self.shortages.is_paused(destination, now)
        };
        self.slots.reserve(&urls, may_send, now)
    }
}

/// Stores the events of a request with leases, responds to the producer, and starts their deliveries.
async fn enqueue_and_send(
    worker: Arc<Worker>,
    reservation: Reservation,
    request: EnqueueRequest,
    reply: oneshot::Sender<Result<EnqueueResponse, StoreError>>,
) {
    let requested_at = worker.ports.clock.monotonic();
    let owner = worker.settings.lease_owner.clone();
    let lease = Some(EnqueueLease { owner, duration: worker.settings.lease.duration() });
    let mut response =
        catch_store_panic(worker.ports.store.enqueue(EnqueueRequest { lease, ..request })).await;
    let leases =
        response.as_mut().map_or_else(|_| Vec::new(), |response| std::mem::take(&mut response.leases));
    // The producer may have given up waiting.
    let _ = reply.send(response);
    start_deliveries(&worker, reservation, leases, requested_at).await;
}

/// Starts a delivery for each lease, at its reserved place. Releases the leases if the worker has begun to drain.
async fn start_deliveries(
    worker: &Arc<Worker>,
    mut reservation: Reservation,
    leases: Vec<Lease>,
    requested_at: Duration,
) {
    if worker.sends_no_more(requested_at) {
        let leases: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
        // From here on, the release counts the leases instead of their places.
        reservation.free();
        return release_unsent(worker, &leases).await;
    }
    let now = worker.ports.clock.monotonic();
    let ready = worker.accept_leases(leases, requested_at).filter_map(|event| {
        match reservation.take(event.lease.destination_id) {
            Some(slot) => Some(ReadyEvent { event, slot }.into()),
            // The destination was removed and created again, under another id.
            None => worker.slots.add(event, now),
        }
    });
    worker.lanes.start(worker, ready);
}
