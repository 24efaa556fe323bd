//! Error responses. All have one envelope: `{"error":{"code","message","details"?}}`.
//!
//! A message says what happened, which value caused it and what to do. Internal causes are logged here, once, and are not
//! shown to clients.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use posthaste_domain::EventId;
use posthaste_store::StoreError;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::access::Role;
use crate::explain::explain_discard;

/// The JSON envelope of every error.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct ErrorEnvelope {
    error: ErrorBody,
}

/// What happened, as a code for programs and a message for people.
#[derive(Serialize, ToSchema)]
#[schema(as = ErrorDetail)]
pub(crate) struct ErrorBody {
    #[schema(value_type = ErrorCode)]
    code: &'static str,
    /// For people: what happened, which value caused it, and what to do.
    message: String,
    /// Where in the request the mistake is: `index` of the event, `field`, `parameter` or `header`, `line` and `column`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    details: Option<Value>,
}

/// A stable code for programs. Later versions may add codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(as = ErrorCode, rename_all = "snake_case")]
pub(crate) enum ErrorCode {
    InvalidRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    WebhookOutboxEventNotFound,
    DestinationNotFound,
    OperationNotFound,
    MethodNotAllowed,
    RequestTimeout,
    WebhookOutboxEventNotRequeueable,
    WebhookOutboxEventNotCancellable,
    WebhookOutboxEventNotDiscardable,
    WebhookOutboxEventNotReplayable,
    WebhookOutboxEventContentRemoved,
    EndpointDisabled,
    EndpointNotFound,
    IdempotencyKeyConflict,
    EventIdTaken,
    PayloadTooLarge,
    Internal,
    Unavailable,
}

posthaste_domain::named_variants!(ErrorCode {
    InvalidRequest => "invalid_request",
    Unauthorized => "unauthorized",
    Forbidden => "forbidden",
    NotFound => "not_found",
    WebhookOutboxEventNotFound => "webhook_outbox_event_not_found",
    DestinationNotFound => "destination_not_found",
    OperationNotFound => "operation_not_found",
    MethodNotAllowed => "method_not_allowed",
    RequestTimeout => "request_timeout",
    WebhookOutboxEventNotRequeueable => "webhook_outbox_event_not_requeueable",
    WebhookOutboxEventNotCancellable => "webhook_outbox_event_not_cancellable",
    WebhookOutboxEventNotDiscardable => "webhook_outbox_event_not_discardable",
    WebhookOutboxEventNotReplayable => "webhook_outbox_event_not_replayable",
    WebhookOutboxEventContentRemoved => "webhook_outbox_event_content_removed",
    EndpointDisabled => "endpoint_disabled",
    EndpointNotFound => "endpoint_not_found",
    IdempotencyKeyConflict => "idempotency_key_conflict",
    EventIdTaken => "event_id_taken",
    PayloadTooLarge => "payload_too_large",
    Internal => "internal",
    Unavailable => "unavailable",
});

/// The error of a failed request.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{message}")]
    Invalid { message: String, details: Option<Value> },
    #[error("this request needs an API key; send it as `Authorization: Bearer KEY`")]
    MissingKey,
    #[error("this API key is unknown")]
    UnknownKey,
    #[error("the key {name:?} has the role {}, which may not do this; use a key with the role {}", role.as_str(), join_roles(allowed))]
    RoleForbidden { name: String, role: Role, allowed: &'static [Role] },
    /// Rejected by the loopback check, with its reason.
    #[error("{0}")]
    NotLocal(String),
    #[error("there is nothing at {path:?}; /openapi.json lists the available paths")]
    RouteNotFound { path: String },
    /// The text of the path cannot be an event id.
    #[error("there is no event {shown:?}")]
    EventNotFound { shown: String },
    /// The text of the path cannot be a destination's id.
    #[error("there is no destination {shown:?}")]
    DestinationNotFound { shown: String },
    /// The text of the path cannot be an operation's id.
    #[error("there is no operation {shown:?}")]
    OperationNotFound { shown: String },
    #[error("{method} is not allowed here")]
    MethodNotAllowed { method: String },
    #[error("{message}")]
    TooLarge { message: String, details: Option<Value> },
    #[error("the body did not arrive in time; send it without pauses, or in smaller requests")]
    BodyTooSlow,
    #[error("event_id {event_id} is already in use; choose another, or omit it to have one generated")]
    EventIdTaken { event_id: EventId, index: Option<usize> },
    #[error("{0}")]
    Store(#[from] StoreError),
    /// The server is at a limit or shutting down.
    #[error("{0}")]
    Busy(&'static str),
    #[error("the server failed to handle the request; the cause is in its log")]
    Panicked,
}

fn join_roles(roles: &[Role]) -> String {
    let names: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    names.join(" or ")
}

impl ApiError {
    /// Builds the error of a bad request without details.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), details: None }
    }

    /// Builds the error of a bad request, with details that locate the mistake.
    pub(crate) fn invalid_at(message: impl Into<String>, details: Value) -> Self {
        Self::Invalid { message: message.into(), details: Some(details) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::MissingKey | Self::UnknownKey => StatusCode::UNAUTHORIZED,
            Self::RoleForbidden { .. } | Self::NotLocal(_) => StatusCode::FORBIDDEN,
            Self::RouteNotFound { .. }
            | Self::EventNotFound { .. }
            | Self::DestinationNotFound { .. }
            | Self::OperationNotFound { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::EventIdTaken { .. } => StatusCode::CONFLICT,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Store(error) => match error {
                StoreError::Unavailable { .. } | StoreError::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
                StoreError::EventNotFound { .. }
                | StoreError::EventDiscarded { .. }
                | StoreError::DestinationNotFound { .. }
                | StoreError::EndpointNotFound { .. }
                | StoreError::OperationNotFound { .. } => StatusCode::NOT_FOUND,
                StoreError::ContentRemoved { .. } => StatusCode::GONE,
                StoreError::NotRequeueable { .. }
                | StoreError::NotCancellable { .. }
                | StoreError::NotDiscardable { .. }
                | StoreError::NotReplayable { .. }
                | StoreError::EndpointDisabled { .. }
                | StoreError::IdempotencyConflict { .. }
                | StoreError::EventIdTaken { .. } => StatusCode::CONFLICT,
                // No request rotates the signing secret, and of the registry these routes call only a few operations.
                _ => StatusCode::INTERNAL_SERVER_ERROR,
            },
        }
    }

    pub(crate) fn code(&self) -> ErrorCode {
        match self {
            Self::Invalid { .. } => ErrorCode::InvalidRequest,
            Self::MissingKey | Self::UnknownKey => ErrorCode::Unauthorized,
            Self::RoleForbidden { .. } | Self::NotLocal(_) => ErrorCode::Forbidden,
            Self::RouteNotFound { .. } => ErrorCode::NotFound,
            Self::EventNotFound { .. } => ErrorCode::WebhookOutboxEventNotFound,
            Self::DestinationNotFound { .. } => ErrorCode::DestinationNotFound,
            Self::OperationNotFound { .. } => ErrorCode::OperationNotFound,
            Self::MethodNotAllowed { .. } => ErrorCode::MethodNotAllowed,
            Self::EventIdTaken { .. } => ErrorCode::EventIdTaken,
            Self::TooLarge { .. } => ErrorCode::PayloadTooLarge,
            Self::BodyTooSlow => ErrorCode::RequestTimeout,
            Self::Busy(_) => ErrorCode::Unavailable,
            Self::Panicked => ErrorCode::Internal,
            Self::Store(error) => match error {
                StoreError::Unavailable { .. } | StoreError::Busy { .. } => ErrorCode::Unavailable,
                StoreError::EventNotFound { .. } | StoreError::EventDiscarded { .. } => {
                    ErrorCode::WebhookOutboxEventNotFound
                }
                StoreError::NotRequeueable { .. } => ErrorCode::WebhookOutboxEventNotRequeueable,
                StoreError::NotCancellable { .. } => ErrorCode::WebhookOutboxEventNotCancellable,
                StoreError::NotDiscardable { .. } => ErrorCode::WebhookOutboxEventNotDiscardable,
                StoreError::NotReplayable { .. } => ErrorCode::WebhookOutboxEventNotReplayable,
                StoreError::ContentRemoved { .. } => ErrorCode::WebhookOutboxEventContentRemoved,
                StoreError::EndpointDisabled { .. } => ErrorCode::EndpointDisabled,
                StoreError::EndpointNotFound { .. } => ErrorCode::EndpointNotFound,
                StoreError::IdempotencyConflict { .. } => ErrorCode::IdempotencyKeyConflict,
                StoreError::EventIdTaken { .. } => ErrorCode::EventIdTaken,
                StoreError::DestinationNotFound { .. } => ErrorCode::DestinationNotFound,
                StoreError::OperationNotFound { .. } => ErrorCode::OperationNotFound,
                _ => ErrorCode::Internal,
            },
        }
    }

    /// Returns the message for the client. A store's own message is internal and stays in the log.
    fn message(&self) -> String {
        match self {
            Self::Store(StoreError::Unavailable { .. }) => {
                "the store is unavailable; repeat the request in a moment. Repeat an enqueue or an action with the same Idempotency-Key, \
                 because the first may have succeeded"
                    .to_owned()
            }
            Self::Store(StoreError::EventDiscarded { event_id, discard }) => {
                explain_discard(event_id, discard)
            }
            Self::Store(StoreError::Rejected { .. }) => Self::Panicked.to_string(),
            other => other.to_string(),
        }
    }

    /// Logs the store's failures. Client errors are not logged.
    fn log(&self) {
        match self {
            Self::Store(error) if error.is_transient() => {
                tracing::warn!(code = error.code(), %error, "request failed: the store is unavailable");
            }
            Self::Store(error) if self.code() == ErrorCode::Internal => {
                tracing::error!(code = error.code(), %error, "request failed: the store rejected it");
            }
            _ => {}
        }
    }

    /// Returns the response body.
    pub(crate) fn envelope(&self) -> ErrorEnvelope {
        ErrorEnvelope {
            error: ErrorBody { code: self.code().as_str(), message: self.message(), details: self.details() },
        }
    }

    fn details(&self) -> Option<Value> {
        match self {
            Self::Invalid { details, .. } | Self::TooLarge { details, .. } => details.clone(),
            Self::EventIdTaken { index: None, .. } => Some(json!({ "field": "event_id" })),
            Self::EventIdTaken { index: Some(index), .. } => {
                Some(json!({ "index": index, "field": "event_id" }))
            }
            _ => None,
        }
    }

    /// Returns the header that HTTP requires or recommends for this status.
    pub(crate) fn header(&self) -> Option<(header::HeaderName, HeaderValue)> {
        match self {
            Self::MissingKey => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"posthaste\"")))
            }
            Self::UnknownKey => Some((
                header::WWW_AUTHENTICATE,
                HeaderValue::from_static("Bearer realm=\"posthaste\", error=\"invalid_token\""),
            )),
            _ if self.status() == StatusCode::SERVICE_UNAVAILABLE => {
                Some((header::RETRY_AFTER, HeaderValue::from_static("1")))
            }
            _ => None,
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        self.log();
        let mut response = (self.status(), Json(self.envelope())).into_response();
        if let Some((name, value)) = self.header() {
            response.headers_mut().insert(name, value);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use utoipa::PartialSchema as _;

    #[test]
    fn the_document_lists_every_error_code() {
        let schema = serde_json::to_value(ErrorCode::schema()).unwrap();
        let codes = schema["enum"].as_array().unwrap();
        assert_eq!(codes.len(), 21);
        for code in codes.iter().map(|code| code.as_str().unwrap()) {
            assert_eq!(ErrorCode::from_name(code).map(ErrorCode::as_str), Some(code));
        }
    }
}
