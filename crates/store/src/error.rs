//! Why a store did not do what it was asked. Callers match on this; nothing on the way turns it into text.

use posthaste_domain::{DeliveryStatus, EventId};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store could not be reached or did not answer, and whether the call was applied is not known. Asking again is
    /// safe: claims by their id, settles by their token, enqueues by their idempotency key.
    #[error("the store is unavailable: {reason}")]
    Unavailable { reason: String },
    /// A transaction of somebody else's that is still open holds what this request needs: the destination or the event id
    /// that is named, where the store can tell. Nothing of it was stored, and it may be asked again.
    #[error("another client's open transaction holds the destination or the event id")]
    Contended { held: Option<String> },
    /// The store understood and refused; calling again will not help.
    #[error("the store refused: {reason}")]
    Rejected { reason: String },
    #[error("there is no event {event_id}")]
    EventNotFound { event_id: EventId },
    #[error("event {event_id} is {}; only a failed event can be requeued", status.as_str())]
    NotRequeueable { event_id: EventId, status: DeliveryStatus },
    #[error("event {event_id} is {}; only a pending or failed event can be cancelled", status.as_str())]
    NotCancellable { event_id: EventId, status: DeliveryStatus },
    #[error(
        "idempotency key {key:?} was used before with a different request; use a new key for a new request"
    )]
    IdempotencyConflict { key: String },
    #[error("event_id {event_id} is taken; leave it out to have one made, or choose another")]
    EventIdTaken { event_id: EventId },
    #[error("there is no destination {id}")]
    DestinationNotFound { id: i64 },
}

impl StoreError {
    /// A stable word for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } | Self::Contended { .. } => "unavailable",
            Self::Rejected { .. } => "rejected",
            Self::EventNotFound { .. } => "webhook_outbox_event_not_found",
            Self::NotRequeueable { .. } => "webhook_outbox_event_not_requeueable",
            Self::NotCancellable { .. } => "webhook_outbox_event_not_cancellable",
            Self::IdempotencyConflict { .. } => "idempotency_key_conflict",
            Self::EventIdTaken { .. } => "event_id_taken",
            Self::DestinationNotFound { .. } => "destination_not_found",
        }
    }

    /// True when the same call may succeed later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Contended { .. })
    }
}
