//! The body of an enqueue request: one event, an array of events, or an object with that array. Payloads are not parsed; they stay slices of the body.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{DELIVER_IN_MAX, NewEventSpec, Timestamp};
use serde::Deserialize;
use serde::de::value::MapAccessDeserializer;
use serde::de::{self, DeserializeSeed, Deserializer, IntoDeserializer as _, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::json::Object;
use crate::timestamp::{GivenTime, Rfc3339};

/// The field of an object that holds the array of events.
const WRAPPER_FIELD: &str = "events";
/// Maximum number of events in one request.
const EVENTS_MAX: usize = 1_000;

/// An event to deliver.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent)]
pub(crate) struct EventRequest<'b> {
    /// An absolute http or https URL without credentials or fragment.
    #[schema(max_length = 2048, example = "https://receiver.example/hook")]
    destination_url: String,
    /// Sent to the receiver in the header `posthaste-event-type`. Printable ASCII.
    #[schema(min_length = 1, max_length = 256, example = "invoice.paid")]
    event_type: String,
    /// Any JSON value, including null. At most 256 KiB of text unless configured otherwise.
    #[serde(borrow)]
    #[schema(value_type = Value, example = json!({"invoice": "in_17", "amount": 12.50}))]
    payload: &'b RawValue,
    /// Identifies the event, and is the same on every attempt. Must be unique; generated if omitted. Visible ASCII without
    /// full stops.
    #[schema(min_length = 1, max_length = 256, example = "order-17-created")]
    event_id: Option<String>,
    #[schema(min_length = 1, max_length = 256, example = "pr_17")]
    payment_request_id: Option<String>,
    /// A label that the producer may choose freely.
    #[schema(min_length = 1, max_length = 256)]
    webhook_id: Option<String>,
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// Maximum number of requests, including the first, before the event is dead-lettered. The instance's setting if
    /// omitted.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 1000, example = 6)]
    max_attempts: Option<WholeNumber>,
    /// When the first attempt is due: an RFC 3339 time, at most 90 days ahead. Now if omitted or past. The time to expire counts
    /// from then.
    #[schema(value_type = Option<String>, format = DateTime, example = "2026-01-31T11:29:00Z")]
    deliver_at: Option<GivenTime>,
}

/// One event, an array of events, or an object with that array as `events`, which is also the form of the response.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = NewEvents)]
pub(crate) enum EnqueueBody<'b> {
    One(EventRequest<'b>),
    Many(EventList<'b>),
    Wrapped(WrappedEvents<'b>),
}

/// Events of which either all are stored or none.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEventsObject)]
pub(crate) struct WrappedEvents<'b> {
    pub(super) events: EventList<'b>,
}

/// Events of which either all are stored or none.
#[derive(ToSchema)]
#[schema(as = NewEventList, min_items = 1, max_items = 1000)]
pub(crate) struct EventList<'b>(pub(super) Vec<EventRequest<'b>>);

impl EnqueueBody<'_> {
    /// Returns whether an event of the body names the time of its first attempt.
    pub(super) fn has_deliver_at(&self) -> bool {
        let events = match self {
            Self::One(event) => std::slice::from_ref(event),
            Self::Many(list) | Self::Wrapped(WrappedEvents { events: list }) => &list.0,
        };
        events.iter().any(|event| event.deliver_at.is_some())
    }
}

impl EventRequest<'_> {
    /// Returns the time from `now` until the first attempt is due, which is zero for a time in the past.
    pub(super) fn deliver_in(&self, now: Timestamp) -> Result<Duration, DeliverAtTooLate> {
        let Some(GivenTime(at)) = self.deliver_at else { return Ok(Duration::ZERO) };
        match at.since(now) {
            delay if delay > DELIVER_IN_MAX => Err(DeliverAtTooLate(at)),
            delay => Ok(delay),
        }
    }

    /// Converts to the form that the domain validates. The payload becomes a slice of `body`, without a copy.
    pub(super) fn into_spec(
        self,
        body: &Bytes,
        traceparent: Option<&str>,
        deliver_in: Duration,
    ) -> NewEventSpec {
        NewEventSpec {
            deliver_in,
            destination_url: self.destination_url,
            event_type: self.event_type,
            payload: body.slice_ref(self.payload.get().as_bytes()),
            event_id: self.event_id,
            payment_request_id: self.payment_request_id,
            webhook_id: self.webhook_id,
            session_id: self.session_id,
            max_attempts: self.max_attempts.map(|number| number.0),
            traceparent: traceparent.map(str::to_owned),
            ..NewEventSpec::default()
        }
    }
}

/// Written by hand because `#[serde(untagged)]` would buffer the body: that loses the payload's exact bytes and the position
/// of errors.
impl<'de> Deserialize<'de> for EnqueueBody<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EnqueueBodyVisitor)
    }
}

struct EnqueueBodyVisitor;

impl<'de> Visitor<'de> for EnqueueBodyVisitor {
    type Value = EnqueueBody<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object or an array of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<EnqueueBody<'de>, A::Error> {
        let first_key: Option<String> = map.next_key()?;
        if first_key.as_deref() != Some(WRAPPER_FIELD) {
            let event = ReplayedMap { first_key, rest: map };
            return EventRequest::deserialize(MapAccessDeserializer::new(event)).map(EnqueueBody::One);
        }
        let events = map.next_value()?;
        match map.next_key::<String>()? {
            Some(field) => Err(de::Error::unknown_field(&field, &[WRAPPER_FIELD])),
            None => Ok(EnqueueBody::Wrapped(WrappedEvents { events })),
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, array: A) -> Result<EnqueueBody<'de>, A::Error> {
        EventListVisitor.visit_seq(array).map(EnqueueBody::Many)
    }
}

/// A map whose first key was read already.
struct ReplayedMap<A> {
    first_key: Option<String>,
    rest: A,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for ReplayedMap<A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        match self.first_key.take() {
            Some(key) => seed.deserialize(key.into_deserializer()).map(Some),
            None => self.rest.next_key_seed(seed),
        }
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.rest.next_value_seed(seed)
    }
}

impl<'de> Deserialize<'de> for EventList<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(EventListVisitor)
    }
}

struct EventListVisitor;

impl<'de> Visitor<'de> for EventListVisitor {
    type Value = EventList<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of event objects")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut array: A) -> Result<EventList<'de>, A::Error> {
        let mut events = Vec::new();
        while let Some(Object(event)) = array.next_element()? {
            if events.len() == EVENTS_MAX {
                return Err(de::Error::custom(format!("one request may hold at most {EVENTS_MAX} events")));
            }
            events.push(event);
        }
        if events.is_empty() {
            return Err(de::Error::custom("the array is empty; send at least one event"));
        }
        Ok(EventList(events))
    }
}

/// The time of a first attempt that lies too far ahead.
#[derive(Debug, thiserror::Error)]
#[error("deliver_at must be at most {days} days ahead, got {at}", days = DELIVER_IN_MAX.as_secs() / 86_400, at = Rfc3339(*.0))]
pub(super) struct DeliverAtTooLate(Timestamp);

/// A whole number in any JSON notation: `3`, `3.0` and `3e0` are equal.
#[derive(Deserialize)]
#[serde(try_from = "Number")]
struct WholeNumber(u32);

impl TryFrom<Number> for WholeNumber {
    type Error = String;

    fn try_from(number: Number) -> Result<Self, String> {
        // The shortest decimal form of a float with a whole value has neither a fraction nor an exponent.
        let decimal = match number.as_u64() {
            Some(whole) => whole.to_string(),
            None => number.as_f64().map(|float| float.to_string()).unwrap_or_default(),
        };
        decimal.parse().map(Self).map_err(|_| format!("must be a whole number from 1 to 1000, got {number}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_share_the_buffer_of_the_body() {
        let event = r#"{"destination_url":"https://a.example","event_type":"a","payload": {"n": 1.0} }"#;
        let body = Bytes::from(format!("[{event},{event}]"));
        let EnqueueBody::Many(EventList(events)) = crate::json::parse(&body).unwrap() else {
            panic!("the body is an array")
        };
        for event in events {
            let payload = event.into_spec(&body, None, Duration::ZERO).payload;
            assert_eq!(&payload[..], br#"{"n": 1.0}"#);
            assert!(body.as_ptr_range().contains(&payload.as_ptr()), "the payload was copied");
        }
    }
}
