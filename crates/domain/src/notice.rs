//! The notice broadcast when an event is delivered or dead-lettered, or when its result disables an endpoint.

use crate::{ApplicationId, DisableReason, EndpointId, EventId, FailureKind, Timestamp};

/// The topic on which notices are published.
pub const NOTICE_TOPIC: &str = "gateway:webhooks";

/// What a notice is about: the terminal state that an event reached, or the endpoint that its result disabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NoticeKind {
    Delivered,
    DeadLettered(FailureKind),
    /// The result of the event disabled its endpoint. This notice follows the event's own, if that reached a terminal state.
    EndpointDisabled(DisableReason),
}

impl NoticeKind {
    /// The kind of the notice about an event that failed for this reason; without a reason, it was delivered.
    pub const fn from_failure_kind(kind: Option<FailureKind>) -> Self {
        match kind {
            None => Self::Delivered,
            Some(kind) => Self::DeadLettered(kind),
        }
    }

    /// Why the event was dead-lettered, if it was.
    pub const fn failure_kind(self) -> Option<FailureKind> {
        match self {
            Self::Delivered | Self::EndpointDisabled(_) => None,
            Self::DeadLettered(kind) => Some(kind),
        }
    }

    /// Why the endpoint was disabled, if the notice is about one.
    pub const fn disable_reason(self) -> Option<DisableReason> {
        match self {
            Self::Delivered | Self::DeadLettered(_) => None,
            Self::EndpointDisabled(reason) => Some(reason),
        }
    }

    /// The `type` of the notice on the topic.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Delivered => "WebhookDeliveredEvent",
            Self::DeadLettered(_) => "WebhookDLQEvent",
            Self::EndpointDisabled(_) => "WebhookEndpointDisabledEvent",
        }
    }
}

/// The broadcast that an event reached a terminal state, or that its result disabled an endpoint.
///
/// A store commits the notice in the same transaction as the change of state, so that neither exists without the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    pub kind: NoticeKind,
    /// `webhook_delivery_id` on the wire.
    pub event_id: EventId,
    pub webhook_id: Option<String>,
    pub session_id: Option<String>,
    pub payment_request_id: Option<String>,
    pub attempts: u32,
    pub at: Timestamp,
    /// The endpoint of a [`NoticeKind::EndpointDisabled`]. `None` in a notice of another kind.
    pub endpoint: Option<NoticeEndpoint>,
}

/// The disabled endpoint that a notice is about, and its application.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoticeEndpoint {
    pub id: EndpointId,
    pub app: ApplicationId,
}
