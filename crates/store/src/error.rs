//! The errors of a store. Callers match on the variants; no layer in between turns an error into text.

use posthaste_domain::signature::DESTINATION_KEYS_MAX;
use posthaste_domain::{DeliveryStatus, EventId, EventTypeName, Timestamp};

use crate::{AuditView, VALID_SECRETS_MAX};

/// Why a call to a store failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// The store could not be reached or did not respond in time; the call may have been applied. Repeating it is safe:
    /// a claim by its id, a settle by its lease token, an enqueue and an operator action by its idempotency key.
    #[error("the store is unavailable: {reason}")]
    Unavailable { reason: String },
    /// Another client holds a resource that the call needs. The call changed nothing and may succeed later. The reason
    /// names no value of another client, so it may be shown to the caller.
    #[error("{reason}; nothing was stored, repeat the request later")]
    Busy { reason: &'static str },
    /// The store understood the call and refused it; repeating it does not help.
    #[error("the store refused: {reason}")]
    Rejected { reason: String },
    #[error("there is no event {event_id}")]
    EventNotFound { event_id: EventId },
    /// An operator discarded the event. It stays unknown to every call, and its id stays taken, until retention removes the
    /// audit log of the discard.
    #[error("event {event_id} was discarded by {}", discard.actor)]
    EventDiscarded { event_id: EventId, discard: AuditView },
    #[error("event {event_id} is {}; only a failed event can be requeued", status.as_str())]
    NotRequeueable { event_id: EventId, status: DeliveryStatus },
    #[error("event {event_id} is {}; only a pending or failed event can be cancelled", status.as_str())]
    NotCancellable { event_id: EventId, status: DeliveryStatus },
    #[error("event {event_id} is {}; only a failed event can be discarded", status.as_str())]
    NotDiscardable { event_id: EventId, status: DeliveryStatus },
    #[error("event {event_id} is {}; {}", status.as_str(), not_replayable_because(*status))]
    NotReplayable { event_id: EventId, status: DeliveryStatus },
    #[error("the payload of event {event_id} was removed")]
    ContentRemoved { event_id: EventId },
    #[error(
        "idempotency key {key:?} was used before with a different request; use a new key for a new request"
    )]
    IdempotencyConflict { key: String },
    #[error("event_id {event_id} is already in use; omit it to have one generated, or choose another")]
    EventIdTaken { event_id: EventId },
    #[error("there is no destination {id}")]
    DestinationNotFound { id: i64 },
    /// As many signing secrets are valid as may be. `next_retires_at` is when the next of them retires.
    #[error(
        "{VALID_SECRETS_MAX} signing secrets are valid, which is the limit; rotate again when one has retired"
    )]
    TooManySecrets { next_retires_at: Option<Timestamp> },
    /// The organisation has no such application. It may be another organisation's.
    #[error("there is no application {app}")]
    ApplicationNotFound { app: String },
    #[error("there is no endpoint {endpoint}")]
    EndpointNotFound { endpoint: String },
    #[error("there is no message {message}")]
    MessageNotFound { message: String },
    #[error("there is no attempt {attempt}")]
    AttemptNotFound { attempt: String },
    #[error("there is no event type {name}")]
    EventTypeNotFound { name: EventTypeName },
    #[error("there is no operation {operation}")]
    OperationNotFound { operation: String },
    #[error("the uid {uid} is taken; choose another")]
    UidTaken { uid: String },
    #[error("the event type {name} is registered already")]
    EventTypeTaken { name: EventTypeName },
    #[error("these event types are not registered: {}", names.join(", "))]
    UnknownEventTypes { names: Vec<String> },
    #[error("endpoint {endpoint} is disabled; enable it first")]
    EndpointDisabled { endpoint: String },
    #[error("the payload of message {message} was removed, so it cannot be sent again")]
    PayloadExpunged { message: String },
    #[error("{DESTINATION_KEYS_MAX} keys are valid, which is the limit; rotate again when one has retired")]
    TooManyKeys { next_retires_at: Option<Timestamp> },
    /// An answer is kept under the key of the call, so nothing was changed. The caller sends that answer.
    #[error("the request was answered before")]
    AnswerKept,
}

impl StoreError {
    /// A stable code for logs and metrics.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::Unavailable { .. } | Self::Busy { .. } => "unavailable",
            Self::Rejected { .. } => "rejected",
            Self::EventNotFound { .. } | Self::EventDiscarded { .. } => "webhook_outbox_event_not_found",
            Self::NotRequeueable { .. } => "webhook_outbox_event_not_requeueable",
            Self::NotCancellable { .. } => "webhook_outbox_event_not_cancellable",
            Self::NotDiscardable { .. } => "webhook_outbox_event_not_discardable",
            Self::NotReplayable { .. } => "webhook_outbox_event_not_replayable",
            Self::ContentRemoved { .. } => "webhook_outbox_event_content_removed",
            Self::IdempotencyConflict { .. } => "idempotency_key_conflict",
            Self::EventIdTaken { .. } => "event_id_taken",
            Self::DestinationNotFound { .. } => "destination_not_found",
            Self::TooManySecrets { .. } => "too_many_secrets",
            Self::ApplicationNotFound { .. }
            | Self::EndpointNotFound { .. }
            | Self::MessageNotFound { .. }
            | Self::AttemptNotFound { .. }
            | Self::EventTypeNotFound { .. }
            | Self::OperationNotFound { .. } => "not_found",
            Self::UidTaken { .. } => "conflict",
            Self::EventTypeTaken { .. } => "event_type_exists",
            Self::UnknownEventTypes { .. } => "unknown_event_types",
            Self::EndpointDisabled { .. } => "endpoint_disabled",
            Self::PayloadExpunged { .. } => "missing_payload",
            Self::TooManyKeys { .. } => "limit_reached",
            Self::AnswerKept => "answer_kept",
        }
    }

    /// Returns true if the same call may succeed later.
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable { .. } | Self::Busy { .. })
    }
}

/// Says what to do with an event that has not been delivered.
const fn not_replayable_because(status: DeliveryStatus) -> &'static str {
    match status {
        DeliveryStatus::Failed => "requeue it to send it",
        DeliveryStatus::Pending | DeliveryStatus::Delivered => "only a delivered event can be sent once more",
    }
}
