//! Events that a test enqueues.

use serde_json::{Value, json};

use super::output::PAYLOAD_MARKER;
use super::receiver::Receiver;

/// The enqueue request of one event.
#[derive(Debug, Clone)]
pub(crate) struct Event {
    fields: Value,
    payload: String,
}

impl Event {
    /// Creates an event for a receiver, with a payload that contains [`PAYLOAD_MARKER`].
    pub(crate) fn to(receiver: &Receiver) -> Self {
        Self::to_url(&receiver.url())
    }

    pub(crate) fn to_url(url: &str) -> Self {
        Self {
            fields: json!({ "destination_url": url, "event_type": "invoice.paid" }),
            payload: json!({ "invoice": 17, "note": PAYLOAD_MARKER }).to_string(),
        }
    }

    /// Sets a field of the request.
    #[must_use]
    pub(crate) fn with(mut self, field: &str, value: impl Into<Value>) -> Self {
        self.fields[field] = value.into();
        self
    }

    /// Sets the payload to exactly this JSON text.
    #[must_use]
    pub(crate) fn with_payload(mut self, json: &str) -> Self {
        json.clone_into(&mut self.payload);
        self
    }

    /// Returns the body of the enqueue request. The body contains the payload unparsed, byte for byte.
    pub(crate) fn request_body(&self) -> String {
        let fields = self.fields.to_string();
        let fields = fields.strip_suffix('}').unwrap();
        format!("{fields},\"payload\":{}}}", self.payload)
    }
}

/// Returns the body of a request that enqueues several events.
pub(super) fn batch_request_body(events: &[Event]) -> String {
    let bodies: Vec<_> = events.iter().map(Event::request_body).collect();
    format!("[{}]", bodies.join(","))
}
