//! Events as operators see them. Only [`EventContent`] has a payload, so that no other type can leak one.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    ApplicationId, DeliveryStatus, DestinationId, DestinationUrl, ErrorClass, EventId, EventKey, Excerpt,
    FailureKind, LeaseToken, MessageId, Timestamp, Trigger, WorkerId,
};

/// An event as operators see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventView {
    pub key: EventKey,
    pub event_id: EventId,
    pub message_id: MessageId,
    /// The application whose message it is. `None` if the event was enqueued to a URL.
    pub app: Option<ApplicationId>,
    pub destination_id: DestinationId,
    pub destination_url: DestinationUrl,
    pub event_type: String,
    pub payment_request_id: Option<String>,
    pub webhook_id: Option<String>,
    pub session_id: Option<String>,
    /// The name of the API key that stored the event. `None` if it was stored without a key.
    pub stored_by: Option<String>,
    pub status: DeliveryStatus,
    pub failure_kind: Option<FailureKind>,
    /// Attempts recorded since the event was enqueued or last requeued.
    pub attempts: u32,
    pub max_attempts: u32,
    /// Number of leases granted over the whole life of the event.
    pub claims: u32,
    /// Number of leases in a row that expired without a recorded attempt.
    pub lost_leases: u32,
    /// When the event is due. `None` in a terminal state.
    pub next_attempt_at: Option<Timestamp>,
    pub lease_owner: Option<WorkerId>,
    pub lease_until: Option<Timestamp>,
    pub last_error: Option<String>,
    pub last_attempted_at: Option<Timestamp>,
    pub delivered_at: Option<Timestamp>,
    /// The last action of an operator.
    pub manual_last: Option<AuditView>,
    /// The delivered event that an operator sent once more with this event.
    pub replay_of: Option<EventId>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

impl EventView {
    /// The id that the receiver sees as `webhook-id`: see [`Lease::wire_id`](posthaste_domain::Lease::wire_id).
    pub fn wire_id(&self) -> EventId {
        match self.app {
            Some(_) => EventId::from_message(self.message_id),
            None => self.first_event_id().clone(),
        }
    }

    /// The id of the event that a chain of replays began with. All of them have its id on the wire.
    pub fn first_event_id(&self) -> &EventId {
        self.replay_of.as_ref().unwrap_or(&self.event_id)
    }
}

/// The content of an event, for an operator.
#[derive(Clone, PartialEq, Eq)]
pub struct EventContent {
    pub event: EventView,
    pub content_type: String,
    pub traceparent: Option<String>,
    /// The beginning of the payload, or all of it.
    pub payload: Bytes,
    /// The size of the whole payload.
    pub payload_bytes: u64,
}

/// Omits the payload, so that it never reaches a log.
impl fmt::Debug for EventContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { event, payload_bytes, .. } = self;
        write!(f, "EventContent({}, {payload_bytes} bytes)", event.event_id)
    }
}

/// A recorded attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptView {
    /// The token of its lease, which is also the public id of the attempt.
    pub token: LeaseToken,
    /// The number of the attempt, counting from one since the event was enqueued or last requeued.
    pub attempt: u32,
    pub trigger: Trigger,
    pub started_at: Timestamp,
    pub duration: Duration,
    pub http_status: Option<u16>,
    pub error_class: Option<ErrorClass>,
    pub excerpt: Excerpt,
    pub worker: WorkerId,
    /// False if the worker had lost its lease when the result arrived: the event was cancelled or had expired, or another
    /// worker had taken it over. Such a result changed nothing, and counts as no attempt.
    pub applied: bool,
}

/// An operator's action on an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ManualAction {
    Requeue,
    Cancel,
    Discard,
    /// A caller of the registry sent the message again. It reopened the event like a requeue, or added it.
    Resend,
    /// An operator sent a delivered event once more. The action is recorded with that event and with the event that it added.
    Replay,
    /// An operator looked at the payload. It changes nothing, so it is never the last action on an event.
    ViewContent,
}

posthaste_domain::named_variants!(ManualAction {
    Requeue => "requeue",
    Cancel => "cancel",
    Discard => "discard",
    Resend => "resend",
    Replay => "replay",
    ViewContent => "view_content",
});

impl ManualAction {
    /// Returns whether the action makes the event due now and restarts its expiry, so that its next attempt is manual.
    pub const fn restarts(self) -> bool {
        matches!(self, Self::Requeue | Self::Resend | Self::Replay)
    }
}

/// An entry of the audit log: which operator did what to an event, when and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditView {
    pub action: ManualAction,
    pub actor: String,
    pub at: Timestamp,
    /// The reason of a cancel or discard, from [`clean_reason`](posthaste_domain::clean_reason). A requeue has none.
    pub reason: Option<String>,
}

/// An event with its attempts and its audit log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventDetail {
    pub event: EventView,
    /// The attempts in the order in which they were recorded; of one settle call, those that were applied come first.
    pub history: Vec<AttemptView>,
    /// The actions of operators, oldest first.
    pub audit: Vec<AuditView>,
}
