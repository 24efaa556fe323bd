//! The broadcast that follows an event into a terminal state.

use crate::{EventId, Timestamp};

/// The topic that notices are published on.
pub const TOPIC: &str = "gateway:webhooks";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    Delivered,
    DeadLettered,
}

words!(NoticeKind {
    Delivered => "WebhookDeliveredEvent",
    DeadLettered => "WebhookDLQEvent",
});

/// Committed together with the change it tells of, so that neither exists without the other.
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
}
