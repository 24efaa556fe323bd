//! The notice broadcast when an event is delivered or dead-lettered.

use crate::{EventId, Timestamp};

/// The topic on which notices are published.
pub const NOTICE_TOPIC: &str = "gateway:webhooks";

/// Which terminal state the event reached. The name of each variant is the event type on the topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NoticeKind {
    Delivered,
    DeadLettered,
}

named_variants!(NoticeKind {
    Delivered => "WebhookDeliveredEvent",
    DeadLettered => "WebhookDLQEvent",
});

/// The broadcast that an event reached a terminal state.
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
}
