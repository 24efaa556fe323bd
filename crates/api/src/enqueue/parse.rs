//! Reads events as producers write them. The payload is never taken apart: its bytes are a piece of the body's.

use std::cell::Cell;
use std::fmt;

use bytes::Bytes;
use posthaste_domain::NewEventSpec;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::body::unreadable;
use crate::error::ApiError;

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
    let place = Place { body, index: Cell::new(None), field: Cell::new(None) };
    let mut json = serde_json::Deserializer::from_slice(body);
    let offered = json.deserialize_any(Either(&place));
    let offered = offered.and_then(|offered| {
        place.index.set(None);
        json.end().map(|()| offered)
    });
    offered.map_err(|error| unreadable(&error, place.index.get(), place.field.get()))
}

/// How far reading has come, for whoever must say where it stopped.
struct Place<'b> {
    body: &'b Bytes,
    index: Cell<Option<usize>>,
    field: Cell<Option<&'static str>>,
}

/// One event, or an array of them.
#[derive(Clone, Copy)]
struct Either<'p, 'b>(&'p Place<'b>);

/// One event.
#[derive(Clone, Copy)]
struct One<'p, 'b>(&'p Place<'b>);

impl<'de> Visitor<'de> for Either<'_, '_> {
    type Value = Offered;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event object or an array of them")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Offered, A::Error> {
        One(self.0).visit_map(map).map(|spec| Offered::One(Box::new(spec)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut events: A) -> Result<Offered, A::Error> {
        let mut specs = Vec::new();
        self.0.index.set(Some(0));
        while let Some(spec) = events.next_element_seed(One(self.0))? {
            specs.push(spec);
            if specs.len() > EVENTS_MAX {
                self.0.index.set(None);
                return Err(de::Error::custom(format!(
                    "at most {EVENTS_MAX} events are taken in one request"
                )));
            }
            self.0.index.set(Some(specs.len()));
        }
        self.0.index.set(None);
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
        let place = self.0;
        let mut seen = Vec::with_capacity(FIELDS.len());
        let mut spec = NewEventSpec::default();
        place.field.set(None);
        while let Some(key) = map.next_key::<String>()? {
            let known = FIELDS.iter().copied().find(|field| *field == key);
            let field = known.ok_or_else(|| de::Error::unknown_field(&key, FIELDS))?;
            if seen.contains(&field) {
                return Err(de::Error::duplicate_field(field));
            }
            seen.push(field);
            place.field.set(Some(field));
            match field {
                "destination_url" => spec.destination_url = map.next_value()?,
                "event_type" => spec.event_type = map.next_value()?,
                "payload" => {
                    let text: &'de RawValue = map.next_value()?;
                    spec.payload = place.body.slice_ref(text.get().as_bytes());
                }
                "event_id" => spec.event_id = map.next_value()?,
                "payment_request_id" => spec.payment_request_id = map.next_value()?,
                "webhook_id" => spec.webhook_id = map.next_value()?,
                "session_id" => spec.session_id = map.next_value()?,
                "max_attempts" => spec.max_attempts = map.next_value()?,
                _ => return Err(de::Error::unknown_field(field, FIELDS)),
            }
            place.field.set(None);
        }
        for required in ["destination_url", "event_type", "payload"] {
            if !seen.contains(&required) {
                return Err(de::Error::missing_field(required));
            }
        }
        Ok(spec)
    }
}
