//! The request and the response of a claim.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{ClaimId, DestinationId, EventId, EventKey, Lease, LeaseToken, Timestamp, WorkerId};

use crate::destination::{RequestedProbe, ResumedDestination};
use crate::slots::{ClaimSlots, PaceSlots};

/// A worker's request for leases. A worker requests only as many events as it can send at once.
///
/// A claim grants no event of a paused destination or a disabled endpoint. It grants no more events of a throttled endpoint or
/// application than the throttle allows, and spends the throttle in the same transaction. Of a destination in FIFO order it
/// grants the head of the line alone: the event that is leased or, if none is, the pending event with the smallest key.
#[derive(Debug, Clone)]
pub struct ClaimRequest {
    /// Makes the claim repeatable, so that a lost response does not cost its events a lease.
    ///
    /// A repeated claim returns the leases that the first call granted and that the claim still holds. It extends them
    /// to their full length and increments no counter. If it holds none, it claims events as a new claim would. The
    /// store serves two calls under one id one after the other.
    pub id: ClaimId,
    pub owner: WorkerId,
    /// How long each lease lasts without renewal.
    pub lease: Duration,
    /// Maximum number of leases to grant: the free slots of the worker.
    pub limit: usize,
    /// Maximum number of leases on retries. The other leases are on first attempts.
    pub retries_max: usize,
    /// The free slots of each receiver.
    pub slots: Arc<dyn ClaimSlots>,
    /// The free slots for hosts by their pace.
    pub pace_slots: PaceSlots,
    /// Maximum size of the payloads of all leases together, in bytes. One lease is not counted: a claim may always grant
    /// one event, however large it is.
    ///
    /// A repeated claim returns the leases that fit, and always the largest one. It releases the others, so that a
    /// worker whose link was too slow for the first response gets a smaller one.
    pub payload_bytes_max: usize,
    /// Maximum size of the payload of each event that the claim newly grants. An event with a larger payload also keeps
    /// back the events behind it in the queue of its destination, but those of no other destination.
    pub event_payload_bytes_max: Option<usize>,
    /// Maximum size of a payload that the response contains. The lease on an event with a larger one has only its size;
    /// [`Store::read_payload`](crate::Store::read_payload) reads it.
    pub inline_payload_bytes_max: usize,
    /// Number of lost leases in a row after which an event is dead-lettered instead of leased again.
    pub abandon_after: u32,
    /// How far back the response lists resumed and updated destinations: at least the time since the last answered claim.
    pub resumed_within: Duration,
}

/// The leases that a claim granted, and the events that it dead-lettered because they had lost too many leases.
#[derive(Debug, Clone, Default)]
pub struct ClaimResponse {
    /// The granted leases.
    pub leases: Vec<Lease>,
    /// Events that this call dead-lettered because they lost too many leases in a row. A repeated claim does not list
    /// them again.
    pub abandoned: Vec<EventId>,
    /// The time of the store's clock while it served the claim. Workers date their requests by it.
    pub now: Timestamp,
    /// Destinations that an operator has resumed within [`ClaimRequest::resumed_within`]. The worker closes their
    /// circuits. A claim whose leases reach the limit may leave them to one of the next claims.
    pub resumed: Vec<ResumedDestination>,
    /// Destinations for which an operator has asked for a probe within [`ClaimRequest::resumed_within`]. A worker with an open
    /// circuit of the destination sends one request at once.
    pub probes: Vec<RequestedProbe>,
    /// Destinations whose URL, keys or headers have changed within [`ClaimRequest::resumed_within`]. The worker reads them again
    /// before its next request.
    pub updated: Vec<DestinationId>,
    /// Whether the claim left a claimable event because of the size of its payload: because of
    /// [`ClaimRequest::payload_bytes_max`] or [`ClaimRequest::event_payload_bytes_max`].
    pub is_limited_by_bytes: bool,
    /// The destinations of which the claim left events because of that, if it left none of others. A claim that does not
    /// know them all, such as a repeated one, names none.
    pub kept_back: Vec<DestinationId>,
}

/// Identifies a lease by the key of its event and its token. The token proves that the worker holds the lease.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseRef {
    pub key: EventKey,
    pub token: LeaseToken,
}

impl From<&Lease> for LeaseRef {
    fn from(lease: &Lease) -> Self {
        Self { key: lease.key, token: lease.token }
    }
}
