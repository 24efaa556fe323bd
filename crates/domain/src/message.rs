//! A new message of an application, which each subscribed endpoint gets as an event.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use crate::event::{
    CONTENT_TYPE_DEFAULT, validate_label, validate_max_attempts, validate_optional_label, validate_payload,
};
use crate::{
    Channel, EventTypeName, InvalidEvent, InvalidSubscription, InvalidUid, MESSAGE_CHANNELS_MAX, Uid,
};

const DAY: Duration = Duration::from_secs(86_400);
/// Shortest and longest time for which a payload is kept, in days.
const PAYLOAD_RETENTION_DAYS: std::ops::RangeInclusive<u32> = 5..=90;
/// How long a payload is kept if its producer says nothing, in days.
const PAYLOAD_RETENTION_DAYS_DEFAULT: u32 = 90;
/// Longest delay before the first attempt.
pub const DELIVER_IN_MAX: Duration = Duration::from_secs(90 * 86_400);
/// Most tags of a message.
const TAGS_MAX: usize = 10;

/// A message as a producer submits it, not yet validated.
#[derive(Debug, Clone, Default)]
pub struct MessageSpec {
    pub event_type: String,
    pub payload: Bytes,
    pub content_type: Option<String>,
    /// The producer's own id, which it calls `eventId`.
    pub uid: Option<String>,
    pub channels: Option<Vec<String>>,
    pub tags: Vec<String>,
    /// Time until the first attempt is due.
    pub deliver_in: Duration,
    pub payload_retention_days: Option<u32>,
    pub payment_request_id: Option<String>,
    pub session_id: Option<String>,
    pub traceparent: Option<String>,
    pub max_attempts: Option<u32>,
}

/// A validated message, ready to be stored.
#[derive(Clone, PartialEq, Eq)]
pub struct NewMessage {
    pub event_type: EventTypeName,
    pub payload: Bytes,
    pub content_type: String,
    pub uid: Option<Uid>,
    pub channels: BTreeSet<Channel>,
    pub tags: BTreeSet<String>,
    pub deliver_in: Duration,
    /// How long the payload is kept.
    pub payload_retention: Duration,
    pub payment_request_id: Option<String>,
    pub session_id: Option<String>,
    pub traceparent: Option<String>,
    pub max_attempts: u32,
}

/// Why a message was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMessage {
    #[error(transparent)]
    Event(#[from] InvalidEvent),
    #[error(transparent)]
    Subscription(#[from] InvalidSubscription),
    #[error(transparent)]
    Uid(#[from] InvalidUid),
    #[error("there are {0} tags; at most {TAGS_MAX} are accepted")]
    Tags(usize),
    #[error("the first attempt is due in {0:?}; at most {DELIVER_IN_MAX:?} are accepted")]
    DeliverIn(Duration),
    #[error(
        "a payload can be kept for {min} to {max} days, got {0}",
        min = PAYLOAD_RETENTION_DAYS.start(), max = PAYLOAD_RETENTION_DAYS.end()
    )]
    PayloadRetention(u32),
}

impl NewMessage {
    /// Validates a message. `default_max_attempts` applies to a message that sets no `max_attempts`.
    pub fn accept(
        spec: MessageSpec,
        payload_bytes_max: usize,
        default_max_attempts: u32,
    ) -> Result<Self, InvalidMessage> {
        validate_payload(&spec.payload, payload_bytes_max)?;
        if spec.tags.len() > TAGS_MAX {
            return Err(InvalidMessage::Tags(spec.tags.len()));
        }
        if spec.deliver_in > DELIVER_IN_MAX {
            return Err(InvalidMessage::DeliverIn(spec.deliver_in));
        }
        let days = spec.payload_retention_days.unwrap_or(PAYLOAD_RETENTION_DAYS_DEFAULT);
        if !PAYLOAD_RETENTION_DAYS.contains(&days) {
            return Err(InvalidMessage::PayloadRetention(days));
        }
        let channels = spec.channels.map(|channels| Channel::new_set(&channels, MESSAGE_CHANNELS_MAX));
        let content_type = spec.content_type.unwrap_or_else(|| CONTENT_TYPE_DEFAULT.to_owned());
        let tags = spec.tags.into_iter().map(|tag| validate_label("tags", tag));
        Ok(Self {
            event_type: EventTypeName::new(&spec.event_type)?,
            payload: spec.payload,
            content_type: validate_label("content_type", content_type)?,
            uid: spec.uid.as_deref().map(Uid::for_message).transpose()?,
            channels: channels.transpose()?.unwrap_or_default(),
            tags: tags.collect::<Result<_, _>>()?,
            deliver_in: spec.deliver_in,
            payload_retention: DAY * days,
            payment_request_id: validate_optional_label("payment_request_id", spec.payment_request_id)?,
            session_id: validate_optional_label("session_id", spec.session_id)?,
            traceparent: validate_optional_label("traceparent", spec.traceparent)?,
            max_attempts: validate_max_attempts(spec.max_attempts.unwrap_or(default_max_attempts))?,
        })
    }
}

/// Omits the payload, so that it never reaches a log.
impl std::fmt::Debug for NewMessage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewMessage")
            .field("event_type", &self.event_type)
            .field("uid", &self.uid)
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> MessageSpec {
        MessageSpec {
            event_type: "invoice.paid".to_owned(),
            payload: Bytes::from_static(br#"{"amount": 1}"#),
            ..MessageSpec::default()
        }
    }

    #[test]
    fn omitted_fields_get_their_defaults() {
        let message = NewMessage::accept(spec(), 1_024, 6).unwrap();
        assert_eq!((message.max_attempts, message.content_type.as_str()), (6, "application/json"));
        assert_eq!((message.payload_retention, message.deliver_in), (90 * DAY, Duration::ZERO));
        assert!(message.channels.is_empty() && message.tags.is_empty());
    }

    #[test]
    fn every_refusal_names_the_rule() {
        let refusal = |change: fn(&mut MessageSpec)| {
            let mut spec = spec();
            change(&mut spec);
            NewMessage::accept(spec, 1_024, 6).unwrap_err().to_string()
        };
        assert!(refusal(|spec| spec.event_type = "a b".into()).contains("event type"));
        assert!(refusal(|spec| spec.uid = Some("msg_1".into())).contains("msg_"));
        assert!(refusal(|spec| spec.channels = Some(vec!["c".into(); 6])).contains("1 to 5 channels"));
        assert!(refusal(|spec| spec.tags = vec!["t".into(); 11]).contains("tags"));
        assert!(refusal(|spec| spec.payload_retention_days = Some(4)).contains("5 to 90 days"));
        assert!(refusal(|spec| spec.deliver_in = DELIVER_IN_MAX + DAY).contains("due"));
        assert!(refusal(|spec| spec.payload = Bytes::from(vec![0; 1_025])).contains("1025 bytes"));
        assert!(refusal(|spec| spec.max_attempts = Some(0)).contains("max_attempts"));
    }
}
