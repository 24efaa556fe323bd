//! Events as operators see them. There is no payload here to leak.

use std::time::Duration;

use posthaste_domain::{
    DeliveryStatus, DestinationId, DestinationUrl, ErrorClass, EventId, EventKey, Excerpt, FailureKind,
    LeaseToken, MessageId, Timestamp, Trigger, WorkerId,
};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventView {
    pub key: EventKey,
    pub event_id: EventId,
    pub message_id: MessageId,
    pub destination_id: DestinationId,
    pub destination_url: DestinationUrl,
    pub event_type: String,
    pub payment_request_id: Option<String>,
    pub webhook_id: Option<String>,
    pub session_id: Option<String>,
    pub status: DeliveryStatus,
    pub failure_kind: Option<FailureKind>,
    /// Outcomes recorded since the event was enqueued or last requeued.
    pub attempts: u32,
    pub max_attempts: u32,
    /// Leases ever granted.
    pub claims: u32,
    /// Leases in a row that expired without an outcome.
    pub lost_leases: u32,
    /// None once the event is terminal.
    pub next_attempt_at: Option<Timestamp>,
    pub lease_owner: Option<WorkerId>,
    pub lease_until: Option<Timestamp>,
    pub last_error: Option<String>,
    pub last_attempted_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    pub manual_last: Option<AuditView>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// One recorded outcome.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptView {
    /// The lease token it was made under; the attempt's public id.
    pub token: LeaseToken,
    pub attempt: u32,
    pub trigger: Trigger,
    pub started_at: Timestamp,
    pub duration: Duration,
    pub http_status: Option<u16>,
    pub error_class: Option<ErrorClass>,
    pub excerpt: Excerpt,
    pub worker: WorkerId,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualAction {
    Requeue,
    Cancel,
}

posthaste_domain::words!(ManualAction {
    Requeue => "requeue",
    Cancel => "cancel",
});

/// Who did what to an event, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditView {
    pub action: ManualAction,
    pub actor: String,
    pub at: Timestamp,
    /// Of a cancel, as [`Ending::reason`](posthaste_domain::Ending::reason) has it. A requeue needs none.
    pub reason: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDetail {
    pub event: EventView,
    /// Oldest first.
    pub history: Vec<AttemptView>,
    /// Oldest first.
    pub audit: Vec<AuditView>,
}
