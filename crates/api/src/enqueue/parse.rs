//! Reads events as producers write them. The payload is never taken apart: its bytes are a piece of the body's.

use std::fmt;

use bytes::Bytes;
use posthaste_domain::NewEventSpec;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Unexpected, Visitor};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::object::{Fields, Place};

/// Most events of one request.
const EVENTS_MAX: usize = 1_000;

const FIELDS: &[&str] = &[
    "destination_url",
    "event_type",
    "payload",
    "event_id",
    "payment_request_id",
    "webhook_id",
    "session_id",
    "max_attempts",
];

/// An event to be delivered.
#[derive(ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = NewEvent)]
#[expect(dead_code, reason = "the schema of what is read below")]
pub(crate) struct EventRequest {
    /// An absolute http or https URL, without credentials or fragment.
    #[schema(max_length = 2048, example = "https://receiver.example/hook")]
    destination_url: String,
    /// Sent to the receiver as `posthaste-event-type`. Printable ASCII.
    #[schema(min_length = 1, max_length = 256, example = "invoice.paid")]
    event_type: String,
    /// Any JSON value, null too; at most 256 KiB of text unless configured otherwise.
    #[schema(value_type = Value, example = json!({"invoice": "in_17", "amount": 12.50}))]
    payload: (),
    /// The event's name, unique and the same on every attempt; made up when left out. Visible ASCII without full stops.
    #[schema(min_length = 1, max_length = 256, example = "order-17-created")]
    event_id: Option<String>,
    #[schema(min_length = 1, max_length = 256, example = "pr_17")]
    payment_request_id: Option<String>,
    /// A label of the producer's own.
    #[schema(min_length = 1, max_length = 256)]
    webhook_id: Option<String>,
    #[schema(min_length = 1, max_length = 256)]
    session_id: Option<String>,
    /// Requests before the event is dead-lettered, the first included; the instance's number when left out.
    #[schema(minimum = 1, maximum = 1000, example = 6)]
    max_attempts: Option<u32>,
}

/// One event, or an array of them.
#[derive(ToSchema)]
#[serde(untagged)]
#[schema(as = NewEvents)]
#[expect(dead_code, reason = "the schema of what is read below")]
pub(crate) enum EventsRequest {
    One(EventRequest),
    Many(ManyRequest),
}

/// Events that are all stored, or none of them.
#[derive(ToSchema)]
#[schema(as = NewEventList, min_items = 1, max_items = 1000)]
#[expect(dead_code, reason = "the schema of what is read below")]
pub(crate) struct ManyRequest(Vec<EventRequest>);

/// What was read, not yet judged.
pub(super) enum Offered {
    One(Box<NewEventSpec>),
    Many(Vec<NewEventSpec>),
}

pub(super) fn parse(body: &Bytes) -> Result<Offered, ApiError> {
    let reading = Reading { body, place: Place::default() };
    let mut json = serde_json::Deserializer::from_slice(body);
    let offered = json.deserialize_any(Either(&reading));
    let offered = offered.and_then(|offered| {
        reading.place.index.set(None);
        json.end().map(|()| offered)
    });
    offered.map_err(|error| reading.place.refusal(&error))
}

struct Reading<'b> {
    body: &'b Bytes,
    place: Place,
}

/// One event, or an array of them.
#[derive(Clone, Copy)]
struct Either<'r, 'b>(&'r Reading<'b>);

/// One event.
#[derive(Clone, Copy)]
struct One<'r, 'b>(&'r Reading<'b>);

impl<'de> Visitor<'de> for Either<'_, '_> {
    type Value = Offered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object or an array of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Offered, A::Error> {
        One(self.0).visit_map(map).map(|spec| Offered::One(Box::new(spec)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Offered, A::Error> {
        let index = &self.0.place.index;
        let mut specs = Vec::new();
        index.set(Some(0));
        while let Some(spec) = events.next_element_seed(One(self.0))? {
            specs.push(spec);
            if specs.len() > EVENTS_MAX {
                index.set(None);
                return Err(de::Error::custom(format!(
                    "at most {EVENTS_MAX} events are taken in one request"
                )));
            }
            index.set(Some(specs.len()));
        }
        index.set(None);
        if specs.is_empty() {
            return Err(de::Error::custom("the array holds no events"));
        }
        Ok(Offered::Many(specs))
    }
}

impl<'de> DeserializeSeed<'de> for One<'_, '_> {
    type Value = NewEventSpec;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<NewEventSpec, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for One<'_, '_> {
    type Value = NewEventSpec;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<NewEventSpec, A::Error> {
        let Reading { body, place } = self.0;
        let mut fields = Fields::new(place, FIELDS);
        let mut spec = NewEventSpec::default();
        while let Some(field) = fields.next(&mut map)? {
            match field {
                "destination_url" => spec.destination_url = map.next_value()?,
                "event_type" => spec.event_type = map.next_value()?,
                "payload" => {
                    let text: &'de RawValue = map.next_value()?;
                    spec.payload = body.slice_ref(text.get().as_bytes());
                }
                "event_id" => spec.event_id = map.next_value()?,
                "payment_request_id" => spec.payment_request_id = map.next_value()?,
                "webhook_id" => spec.webhook_id = map.next_value()?,
                "session_id" => spec.session_id = map.next_value()?,
                "max_attempts" => spec.max_attempts = map.next_value_seed(Whole)?,
                _ => return Err(de::Error::unknown_field(field, FIELDS)),
            }
        }
        fields.require(&["destination_url", "event_type", "payload"])?;
        Ok(spec)
    }
}

/// A number that may be left out. JSON has no whole numbers of its own: 3.0 is 3.
struct Whole;

impl<'de> DeserializeSeed<'de> for Whole {
    type Value = Option<u32>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Option<u32>, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl Visitor<'_> for Whole {
    type Value = Option<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number from 1 to 1000")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Option<u32>, E> {
        Ok(None)
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Option<u32>, E> {
        let whole = u32::try_from(number);
        whole.map(Some).map_err(|_| E::invalid_value(Unexpected::Unsigned(number), &self))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Option<u32>, E> {
        Err(E::invalid_value(Unexpected::Signed(number), &self))
    }

    fn visit_f64<E: de::Error>(self, number: f64) -> Result<Option<u32>, E> {
        // Without an exponent, and with a fraction only where there is one.
        let whole = number.to_string().parse();
        whole.map(Some).map_err(|_| E::invalid_type(Unexpected::Float(number), &self))
    }
}
