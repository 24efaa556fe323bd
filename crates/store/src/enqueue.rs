//! The producer's enqueue request and the store's response.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, EventId, Lease, NewEvent, Timestamp, WorkerId};

/// A producer's request to store events: the store saves all of them or none.
#[derive(Debug, Clone)]
pub struct EnqueueRequest {
    pub events: Vec<NewEvent>,
    pub idempotency: Option<Idempotency>,
    /// The name of the API key of the producer, which the store keeps with the events. `None` if the producer used no key.
    pub stored_by: Option<String>,
    /// Leases the new events to a worker of this process that can send them at once, in the commit that stores them.
    pub lease: Option<EnqueueLease>,
}

impl EnqueueRequest {
    /// Builds a request without an idempotency key, from a producer without an API key.
    pub fn new(events: Vec<NewEvent>) -> Self {
        Self { events, idempotency: None, stored_by: None, lease: None }
    }
}

/// The leases that a worker wants on the events of an [`EnqueueRequest`]. They are like the leases of a claim: the worker
/// renews, settles or releases them, and they expire otherwise.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueLease {
    pub owner: WorkerId,
    /// How long each lease lasts without renewal.
    pub duration: Duration,
}

/// The idempotency key of a request. A producer that did not receive the response repeats the request with the same
/// key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// A digest of the request body. The same key with another digest is a conflict.
    pub fingerprint: [u8; 32],
    /// How long the store keeps the key.
    pub keep_for: Duration,
}

/// The response to an [`EnqueueRequest`]: a receipt for each stored event. A repeated request gets the receipts of the
/// first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnqueueResponse {
    /// True when an earlier request with the same key stored the events; the receipts are those of that request.
    pub replayed: bool,
    /// One receipt per event, in order.
    pub receipts: Vec<Receipt>,
    /// The leases on new events, if the request asked for them. A store grants none on an event of a paused destination,
    /// and none if the request is replayed. It may grant fewer: the other events are claimed.
    pub leases: Vec<Lease>,
}

impl EnqueueResponse {
    /// Returns whether a worker has to claim some of the events. If not, the store wakes no worker.
    pub fn leaves_events_to_claim(&self) -> bool {
        self.leases.len() < self.receipts.len()
    }
}

/// The confirmation that one event is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub event_id: EventId,
    pub status: DeliveryStatus,
    pub created_at: Timestamp,
}
