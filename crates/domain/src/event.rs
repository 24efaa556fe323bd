//! A new event from a producer, and the delivery states of an event.

use std::time::Duration;

use bytes::Bytes;

use crate::message::DELIVER_IN_MAX;
use crate::{DestinationUrl, EventId, InvalidDestination, InvalidId};

/// Longest label (event type, content type, reference) accepted from a producer, in bytes.
const LABEL_LEN_MAX: usize = 256;
/// Largest `max_attempts` that a producer may set.
const MAX_ATTEMPTS_MAX: u32 = 1_000;
/// The content type of a payload whose producer sets none.
pub(crate) const CONTENT_TYPE_DEFAULT: &str = "application/json";

/// The delivery state of an event. An event that is being retried is `Pending` with attempts made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DeliveryStatus {
    Pending,
    Delivered,
    /// In the dead-letter queue.
    Failed,
}

named_variants!(DeliveryStatus {
    Pending => "pending",
    Delivered => "delivered",
    Failed => "failed",
});

/// Why an event is in the dead-letter queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// Every allowed attempt failed.
    Exhausted,
    /// An operator cancelled the event.
    Cancelled,
    /// Too many leases in a row expired without a result: the event may be crashing its workers.
    Abandoned,
    /// The receiver responded with status 410.
    Gone,
    /// The event had not ended within the time allowed after it was first due or last requeued.
    Expired,
}

named_variants!(FailureKind {
    Exhausted => "exhausted",
    Cancelled => "cancelled",
    Abandoned => "abandoned",
    Gone => "gone",
    Expired => "expired",
});

/// An event as a producer submits it, not yet validated.
#[derive(Debug, Clone, Default)]
pub struct NewEventSpec {
    pub destination_url: String,
    pub event_type: String,
    pub payload: Bytes,
    pub content_type: Option<String>,
    pub event_id: Option<String>,
    pub payment_request_id: Option<String>,
    pub webhook_id: Option<String>,
    pub session_id: Option<String>,
    pub traceparent: Option<String>,
    pub max_attempts: Option<u32>,
    /// Time until the first attempt is due.
    pub deliver_in: Duration,
}

/// A validated event, ready to be stored. Only [`NewEvent::accept`] builds one, so stores need not validate it again.
#[derive(Clone, PartialEq, Eq)]
pub struct NewEvent {
    destination_url: DestinationUrl,
    event_type: String,
    payload: Bytes,
    content_type: String,
    event_id: Option<EventId>,
    payment_request_id: Option<String>,
    webhook_id: Option<String>,
    session_id: Option<String>,
    traceparent: Option<String>,
    max_attempts: u32,
    deliver_in: Duration,
}

/// Why an event was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEvent {
    #[error(transparent)]
    Destination(#[from] InvalidDestination),
    #[error(transparent)]
    Id(#[from] InvalidId),
    #[error(
        "{field} must be 1 to {LABEL_LEN_MAX} printable ASCII characters, with no space at either end, got {shown:?}"
    )]
    Label { field: &'static str, shown: String },
    #[error("payload is {bytes} bytes; at most {bytes_max} are accepted")]
    PayloadTooLarge { bytes: usize, bytes_max: usize },
    #[error("max_attempts must be 1 to {MAX_ATTEMPTS_MAX}, got {0}")]
    MaxAttempts(u32),
    #[error("the first attempt is due in {0:?}; at most {DELIVER_IN_MAX:?} are accepted")]
    DeliverIn(Duration),
}

impl NewEvent {
    /// Validates an event. `default_max_attempts` applies to an event that sets no `max_attempts`.
    pub fn accept(
        spec: NewEventSpec,
        payload_bytes_max: usize,
        default_max_attempts: u32,
    ) -> Result<Self, InvalidEvent> {
        validate_payload(&spec.payload, payload_bytes_max)?;
        let max_attempts = validate_max_attempts(spec.max_attempts.unwrap_or(default_max_attempts))?;
        if spec.deliver_in > DELIVER_IN_MAX {
            return Err(InvalidEvent::DeliverIn(spec.deliver_in));
        }
        let content_type = spec.content_type.unwrap_or_else(|| CONTENT_TYPE_DEFAULT.to_owned());
        Ok(Self {
            destination_url: DestinationUrl::parse(&spec.destination_url)?,
            event_type: validate_label("event_type", spec.event_type)?,
            payload: spec.payload,
            content_type: validate_label("content_type", content_type)?,
            event_id: spec.event_id.map(EventId::new).transpose()?,
            payment_request_id: validate_optional_label("payment_request_id", spec.payment_request_id)?,
            webhook_id: validate_optional_label("webhook_id", spec.webhook_id)?,
            session_id: validate_optional_label("session_id", spec.session_id)?,
            traceparent: validate_optional_label("traceparent", spec.traceparent)?,
            max_attempts,
            deliver_in: spec.deliver_in,
        })
    }

    pub fn destination_url(&self) -> &DestinationUrl {
        &self.destination_url
    }

    pub fn event_type(&self) -> &str {
        &self.event_type
    }

    pub fn payload(&self) -> &Bytes {
        &self.payload
    }

    pub fn content_type(&self) -> &str {
        &self.content_type
    }

    pub fn event_id(&self) -> Option<&EventId> {
        self.event_id.as_ref()
    }

    pub fn payment_request_id(&self) -> Option<&str> {
        self.payment_request_id.as_deref()
    }

    pub fn webhook_id(&self) -> Option<&str> {
        self.webhook_id.as_deref()
    }

    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    pub fn traceparent(&self) -> Option<&str> {
        self.traceparent.as_deref()
    }

    pub fn max_attempts(&self) -> u32 {
        self.max_attempts
    }

    /// Time until the first attempt is due.
    pub fn deliver_in(&self) -> Duration {
        self.deliver_in
    }
}

/// Omits the payload, so that it never reaches a log.
impl std::fmt::Debug for NewEvent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewEvent")
            .field("destination_url", &self.destination_url)
            .field("event_type", &self.event_type)
            .field("event_id", &self.event_id)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// Refuses a payload of more than `bytes_max` bytes.
pub(crate) fn validate_payload(payload: &Bytes, bytes_max: usize) -> Result<(), InvalidEvent> {
    match payload.len() {
        bytes if bytes > bytes_max => Err(InvalidEvent::PayloadTooLarge { bytes, bytes_max }),
        _ => Ok(()),
    }
}

pub(crate) fn validate_max_attempts(max_attempts: u32) -> Result<u32, InvalidEvent> {
    if (1..=MAX_ATTEMPTS_MAX).contains(&max_attempts) {
        Ok(max_attempts)
    } else {
        Err(InvalidEvent::MaxAttempts(max_attempts))
    }
}

/// Accepts printable ASCII of up to [`LABEL_LEN_MAX`] characters, because labels appear in headers and log lines.
/// Spaces are allowed inside a label, but not at its ends.
pub(crate) fn validate_label(field: &'static str, value: String) -> Result<String, InvalidEvent> {
    let printable = value.bytes().all(|b| b.is_ascii_graphic() || b == b' ');
    let trimmed = value.trim().len() == value.len() && !value.is_empty();
    if printable && trimmed && value.len() <= LABEL_LEN_MAX {
        Ok(value)
    } else {
        Err(InvalidEvent::Label { field, shown: value.chars().take(64).collect() })
    }
}

pub(crate) fn validate_optional_label(
    field: &'static str,
    value: Option<String>,
) -> Result<Option<String>, InvalidEvent> {
    value.map(|value| validate_label(field, value)).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> NewEventSpec {
        NewEventSpec {
            destination_url: "https://example.com/hook".into(),
            event_type: "invoice.paid".into(),
            payload: Bytes::from_static(br#"{"amount": 1.0}"#),
            ..NewEventSpec::default()
        }
    }

    fn accept(spec: NewEventSpec) -> Result<NewEvent, InvalidEvent> {
        NewEvent::accept(spec, 1_024, 6)
    }

    #[test]
    fn omitted_fields_get_their_defaults() {
        let event = accept(spec()).unwrap();
        assert_eq!(event.max_attempts(), 6);
        assert_eq!(event.content_type(), "application/json");
        assert_eq!(event.event_id(), None);
    }

    #[test]
    fn every_refusal_names_the_field_and_the_rule() {
        let refusal = |change: fn(&mut NewEventSpec)| {
            let mut spec = spec();
            change(&mut spec);
            accept(spec).unwrap_err().to_string()
        };
        assert!(refusal(|s| s.event_type = String::new()).contains("event_type"));
        assert!(refusal(|s| s.event_type = "a\r\nb".into()).contains("printable"));
        assert!(refusal(|s| s.session_id = Some(" x".into())).contains("session_id"));
        assert!(refusal(|s| s.event_id = Some("a b".into())).contains("event_id"));
        assert!(refusal(|s| s.max_attempts = Some(0)).contains("max_attempts"));
        assert!(refusal(|s| s.max_attempts = Some(1_001)).contains("1000"));
        assert!(refusal(|s| s.payload = Bytes::from(vec![0; 1_025])).contains("1025 bytes"));
        assert!(refusal(|s| s.destination_url = "nowhere".into()).contains("destination_url"));
    }

    #[test]
    fn debug_output_never_contains_the_payload() {
        let shown = format!("{:?}", accept(spec()).unwrap());
        assert!(!shown.contains("amount"), "{shown}");
    }
}
