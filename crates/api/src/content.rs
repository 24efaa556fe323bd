//! Shows the payload of one event with the headers of its requests. Each look is recorded in the event's audit log.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::Uri;
use posthaste_domain::CustomHeaders;
use posthaste_store::EventContent;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, Operate};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::{EventIdPath, schema_enum};
use crate::query::QueryParameters;

/// The largest part of a payload that a response has.
const PAYLOAD_BYTES_MAX: usize = 256 << 10;

schema_enum! {
    /// `utf8`: the payload as text. `base64`: a payload that is not UTF-8.
    PayloadEncodingSchema as PayloadEncoding { Utf8, Base64 }
}

/// The content of an event.
#[derive(Serialize, ToSchema)]
#[schema(as = EventContent)]
pub(crate) struct EventContentBody {
    #[schema(example = "order-17-created")]
    event_id: String,
    #[schema(example = "application/json")]
    content_type: String,
    /// The payload, or its first 256 KiB.
    #[schema(example = "{\"order\":17}")]
    payload: String,
    #[schema(value_type = PayloadEncodingSchema)]
    payload_encoding: &'static str,
    /// The size of the whole payload.
    #[schema(example = 12)]
    payload_bytes: u64,
    /// Whether `payload` is only the beginning of the payload.
    truncated: bool,
    /// The headers of a request for the event that do not differ between attempts: `webhook-timestamp`, `webhook-signature` and
    /// `posthaste-attempt` are left out.
    #[schema(example = json!({"webhook-id": "order-17-created", "posthaste-event-type": "order.created"}))]
    headers: BTreeMap<String, String>,
    /// The names of custom headers whose values may be credentials and are not shown.
    #[schema(example = json!(["authorization"]))]
    sensitive_headers: Vec<String>,
    /// Why the custom headers of the endpoint are missing here: they were sealed with a key that this server does not have; null if
    /// they are not missing.
    #[schema(example = json!(null))]
    headers_error: Option<&'static str>,
}

/// The value of `headers_error`.
const HEADERS_SEALED: &str = "the custom headers of this endpoint cannot be opened with the keys of this server; its requests cannot be sent either";

/// Show the content of an event
///
/// Shows the payload of an event with the headers of its requests. Each look is recorded in the event's audit log as `view_content`
/// before the response is sent. A payload that was removed gives 410.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/events/{event_id}/content", tag = "Events", operation_id = "getEventContent",
    params(("event_id" = String, Path, description = "The event's id, percent-encoded", example = "order-17-created")),
    responses(
        (status = 200, description = "The content", body = EventContentBody),
    ),
)]
pub(crate) async fn content(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    EventIdPath(event_id): EventIdPath,
    uri: Uri,
) -> Result<Json<EventContentBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    let content = state.store.event_content(&event_id, &caller.name, PAYLOAD_BYTES_MAX).await?;
    tracing::info!(%event_id, actor = caller.name, "content viewed");
    let stored = state.store.endpoints().headers(content.event.destination_id).await?;
    // The look is recorded by now, so the payload is shown also without headers that cannot be opened.
    let custom = state.registry.open_headers(stored.as_ref()).map_err(|_| HEADERS_SEALED);
    Ok(Json(EventContentBody::new(&content, custom)))
}

impl EventContentBody {
    fn new(content: &EventContent, custom: Result<CustomHeaders, &'static str>) -> Self {
        let headers_error = custom.as_ref().err().copied();
        let custom = custom.unwrap_or_default();
        let event = &content.event;
        let is_truncated =
            u64::try_from(content.payload.len()).is_ok_and(|bytes| bytes < content.payload_bytes);
        let (payload, payload_encoding) = encode(&content.payload, is_truncated);
        let fixed = [
            ("content-type", content.content_type.clone()),
            ("webhook-id", event.wire_id().to_string()),
            ("idempotency-key", event.event_id.to_string()),
            ("posthaste-event-type", event.event_type.clone()),
        ];
        let traceparent = content.traceparent.clone().map(|value| ("traceparent", value));
        let (sensitive, shown): (Vec<_>, Vec<_>) =
            custom.iter().partition(|(name, _)| CustomHeaders::is_sensitive(name));
        let headers = shown.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            event_id: event.event_id.to_string(),
            content_type: content.content_type.clone(),
            payload,
            payload_encoding,
            payload_bytes: content.payload_bytes,
            truncated: is_truncated,
            headers: fixed
                .into_iter()
                .chain(traceparent)
                .map(|(name, value)| (name.to_owned(), value))
                .chain(headers)
                .collect(),
            sensitive_headers: sensitive.into_iter().map(|(name, _)| name.to_owned()).collect(),
            headers_error,
        }
    }
}

/// Encodes a payload as text, or as base64 if it is not UTF-8. The end of a truncated text may lack a part of a character.
fn encode(payload: &[u8], is_truncated: bool) -> (String, &'static str) {
    match std::str::from_utf8(payload) {
        Ok(text) => (text.to_owned(), "utf8"),
        Err(error) if is_truncated && error.error_len().is_none() => {
            let (text, _) = payload.split_at(error.valid_up_to());
            (String::from_utf8_lossy(text).into_owned(), "utf8")
        }
        Err(_) => (BASE64_STANDARD.encode(payload), "base64"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_shown_as_text_and_other_bytes_in_base64() {
        assert_eq!(encode("caf\u{e9}".as_bytes(), false), ("caf\u{e9}".to_owned(), "utf8"));
        assert_eq!(encode(b"\xff\x00", false), ("/wA=".to_owned(), "base64"));
    }

    #[test]
    fn a_truncated_text_loses_a_broken_character_at_its_end() {
        let cut = &"caf\u{e9}".as_bytes()[..4];
        assert_eq!(encode(cut, true), ("caf".to_owned(), "utf8"));
        assert_eq!(encode(cut, false).1, "base64", "a whole payload that is no text");
    }
}
