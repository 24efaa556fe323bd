//! What producers hand in and get back.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, EventId, NewEvent, Timestamp};

/// One producer's request: all of its events are stored, or none.
#[derive(Debug, Clone)]
pub struct EnqueueRequest {
    pub events: Vec<NewEvent>,
    pub idempotency: Option<Idempotency>,
}

impl EnqueueRequest {
    /// What only one open transaction can make: its destinations and the event ids that it names.
    pub fn needs(&self) -> impl Iterator<Item = &str> {
        self.events.iter().flat_map(|event| {
            let event_id = event.event_id().map(EventId::as_str);
            std::iter::once(event.destination_url().as_str()).chain(event_id)
        })
    }
}

/// Lets a producer repeat a request whose answer it did not get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Idempotency {
    pub key: String,
    /// A digest of the request's body: the same key with another body is a conflict.
    pub fingerprint: [u8; 32],
    /// How long the key is remembered.
    pub keep: Duration,
}

/// The answer to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Enqueued {
    /// True when the request had been answered before; the receipts are those of the first time.
    pub replayed: bool,
    /// One per event, in order.
    pub receipts: Vec<Receipt>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Receipt {
    pub event_id: EventId,
    pub status: DeliveryStatus,
    pub created_at: Timestamp,
}
