//! Messages in requests and responses.

use posthaste_domain::{Channel, Uid};
use posthaste_store::{EndpointMessage, MessageContent, MessageView};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::ApplicationIn;
use crate::registry::status::MessageStatus;
use crate::timestamp::Rfc3339;

/// A message to publish.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct MessageIn<'b> {
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "invoice.paid")]
    pub(in crate::registry) event_type: String,
    /// A JSON object. Receivers get its exact bytes. At most 256 KiB unless configured otherwise.
    #[serde(borrow)]
    #[schema(value_type = Object, example = json!({"invoice": "in_17"}))]
    pub(in crate::registry) payload: &'b RawValue,
    /// An id of your own for the message, unique in the application.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    pub(in crate::registry) event_id: Option<String>,
    #[schema(min_items = 1, max_items = 5, example = json!(null))]
    pub(in crate::registry) channels: Option<Vec<String>>,
    #[schema(max_items = 10, example = json!(null))]
    pub(in crate::registry) tags: Option<Vec<String>>,
    /// When the first attempt is due, at most 90 days from now; now if it has passed.
    #[schema(format = DateTime, example = json!(null))]
    pub(in crate::registry) deliver_at: Option<String>,
    /// For how many days the payload is kept.
    #[schema(minimum = 5, maximum = 90)]
    pub(in crate::registry) payload_retention_period: Option<u32>,
    /// An application to create if none has the uid of the path. Its uid must be that of the path.
    pub(in crate::registry) application: Option<ApplicationIn>,
    /// Not supported. Only an empty object and null are accepted.
    #[serde(borrow)]
    #[schema(ignore)]
    pub(in crate::registry) transformations_params: Option<&'b RawValue>,
}

/// An example to send to one endpoint.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct ExampleIn<'b> {
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "invoice.paid")]
    pub(in crate::registry) event_type: String,
    /// Which of the examples in the schema of the event type to send.
    #[schema(minimum = 0)]
    pub(in crate::registry) example_index: Option<u32>,
    /// The payload to send instead of an example of the schema.
    #[serde(borrow)]
    #[schema(value_type = Option<Object>)]
    pub(in crate::registry) payload: Option<&'b RawValue>,
}

/// A message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct MessageOut {
    #[schema(example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")]
    id: String,
    event_id: Option<String>,
    event_type: String,
    /// The payload; empty if it was not asked for, `{"expired":true}` if it was removed.
    #[schema(value_type = Value)]
    payload: Box<RawValue>,
    channels: Option<Vec<String>>,
    tags: Option<Vec<String>>,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Rfc3339,
    #[schema(value_type = Option<String>, format = DateTime)]
    deliver_at: Option<Rfc3339>,
}

/// A message that an endpoint gets, with the state of its event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EndpointMessageOut {
    #[serde(flatten)]
    message: MessageOut,
    /// 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    #[schema(maximum = 4)]
    status: u8,
    status_text: &'static str,
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt: Option<Rfc3339>,
}

impl MessageOut {
    /// Shows a message, with its payload if the caller asked for it.
    pub(in crate::registry) fn new(message: &MessageView, with_content: bool) -> Self {
        let channels: Vec<_> = message.channels.iter().map(Channel::as_str).map(str::to_owned).collect();
        let tags: Vec<_> = message.tags.iter().cloned().collect();
        Self {
            id: message.id.to_string(),
            event_id: message.uid.as_ref().map(Uid::to_string),
            event_type: message.event_type.to_string(),
            payload: shown_payload(&message.content, with_content),
            channels: (!channels.is_empty()).then_some(channels),
            tags: (!tags.is_empty()).then_some(tags),
            timestamp: message.created_at.into(),
            deliver_at: message.deliver_at.map(Rfc3339),
        }
    }
}

/// Returns the payload as JSON, byte for byte. A payload that is no JSON, which only SQL producers can store, is not shown.
fn shown_payload(content: &MessageContent, with_content: bool) -> Box<RawValue> {
    let text = match content {
        MessageContent::Payload(payload) if with_content => std::str::from_utf8(payload).unwrap_or("{}"),
        MessageContent::Expunged if with_content => r#"{"expired":true}"#,
        _ => "{}",
    };
    let raw = RawValue::from_string(text.trim_ascii().to_owned());
    raw.unwrap_or_else(|_| RawValue::from_string("{}".to_owned()).expect("an empty object is JSON"))
}

impl EndpointMessageOut {
    pub(in crate::registry) fn new(
        message: &EndpointMessage,
        with_content: bool,
        status: MessageStatus,
    ) -> Self {
        Self {
            message: MessageOut::new(&message.message, with_content),
            status: status.number(),
            status_text: status.as_str(),
            next_attempt: message.event.next_attempt_at.map(Rfc3339),
        }
    }
}
