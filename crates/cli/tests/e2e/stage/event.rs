//! An event to enqueue.

use serde_json::{Value, json};

use super::output::PAYLOAD_MARK;
use super::receiver::Receiver;

#[derive(Debug, Clone)]
pub(crate) struct Event {
    fields: Value,
    payload: String,
}

impl Event {
    pub(crate) fn to(receiver: &Receiver) -> Self {
        Self::to_url(&receiver.url())
    }

    pub(crate) fn to_url(url: &str) -> Self {
        Self {
            fields: json!({ "destination_url": url, "event_type": "invoice.paid" }),
            payload: json!({ "invoice": 17, "note": PAYLOAD_MARK }).to_string(),
        }
    }

    #[must_use]
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields[field] = value.into();
        self
    }

    /// The payload as it is spelled.
    #[must_use]
    pub(crate) fn payload(mut self, text: &str) -> Self {
        self.payload = text.to_owned();
        self
    }

    /// As it is sent: the payload is not read on the way.
    pub(crate) fn body(&self) -> String {
        let fields = self.fields.to_string();
        let fields = fields.strip_suffix('}').unwrap();
        format!("{fields},\"payload\":{}}}", self.payload)
    }
}

/// Many at once.
pub(super) fn bodies(events: &[Event]) -> String {
    let bodies: Vec<_> = events.iter().map(Event::body).collect();
    format!("[{}]", bodies.join(","))
}
