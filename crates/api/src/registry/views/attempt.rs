//! Attempts in responses.

use posthaste_store::AttemptRecord;
use serde::Serialize;
use utoipa::ToSchema;

use super::MessageOut;
use crate::registry::status::{MessageStatus, trigger_number};
use crate::timestamp::Rfc3339;

/// An attempt to send a message to an endpoint.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct AttemptOut {
    #[schema(example = "atmpt_0000000000000011018f3a5b6c7d7e8f90a1b2c3d4e5f607")]
    id: String,
    msg_id: String,
    endpoint_id: String,
    /// The URL that the endpoint has now.
    url: String,
    /// The beginning of the response's body, or a description of the failure.
    response: String,
    /// The status of the response; 0 if there was none.
    response_status_code: u16,
    response_duration_ms: u64,
    /// 0 success, 2 fail.
    #[schema(maximum = 4)]
    status: u8,
    status_text: &'static str,
    /// 0 scheduled, 1 manual.
    #[schema(maximum = 1)]
    trigger_type: u8,
    #[schema(value_type = String, format = DateTime)]
    timestamp: Rfc3339,
    /// The message, if it was asked for with `with_msg`.
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<MessageOut>,
}

impl AttemptOut {
    pub(in crate::registry) fn new(record: &AttemptRecord, msg: Option<MessageOut>) -> Self {
        let status = MessageStatus::of_attempt(record);
        let attempt = &record.attempt;
        Self {
            id: record.id.to_string(),
            msg_id: record.message.to_string(),
            endpoint_id: record.endpoint.to_string(),
            url: record.url.to_string(),
            response: attempt.excerpt.as_str().to_owned(),
            response_status_code: attempt.http_status.unwrap_or(0),
            response_duration_ms: u64::try_from(attempt.duration.as_millis()).unwrap_or(u64::MAX),
            status: status.number(),
            status_text: status.as_str(),
            trigger_type: trigger_number(attempt.trigger),
            timestamp: attempt.started_at.into(),
            msg,
        }
    }
}
