//! Every answer that is not the one asked for, in one envelope: `{"error":{"code","message","details"?}}`.
//!
//! A message says what happened, which value and what to do. What happened inside is logged here, once, and not told.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use posthaste_domain::EventId;
use posthaste_store::StoreError;
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use crate::access::Role;

/// The envelope of every error.
#[derive(Serialize, ToSchema)]
#[schema(as = Error)]
pub(crate) struct Envelope {
    error: Told,
}

#[derive(Serialize, ToSchema)]
#[schema(as = ErrorDetail)]
pub(crate) struct Told {
    #[schema(value_type = Code)]
    code: &'static str,
    /// For people: what happened, which value, and what to do.
    message: String,
    /// Where in the request: `index` of an element, `field`, `parameter` or `header`, `line` and `column`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object, required = false)]
    details: Option<Value>,
}

/// A stable word to act upon. Later versions may know more of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ToSchema)]
#[schema(as = ErrorCode, rename_all = "snake_case")]
pub(crate) enum Code {
    InvalidRequest,
    Unauthorized,
    Forbidden,
    NotFound,
    WebhookOutboxEventNotFound,
    MethodNotAllowed,
    RequestTimeout,
    WebhookOutboxEventNotRequeueable,
    WebhookOutboxEventNotCancellable,
    IdempotencyKeyConflict,
    EventIdTaken,
    PayloadTooLarge,
    Internal,
    Unavailable,
}

posthaste_domain::words!(Code {
    InvalidRequest => "invalid_request",
    Unauthorized => "unauthorized",
    Forbidden => "forbidden",
    NotFound => "not_found",
    WebhookOutboxEventNotFound => "webhook_outbox_event_not_found",
    MethodNotAllowed => "method_not_allowed",
    RequestTimeout => "request_timeout",
    WebhookOutboxEventNotRequeueable => "webhook_outbox_event_not_requeueable",
    WebhookOutboxEventNotCancellable => "webhook_outbox_event_not_cancellable",
    IdempotencyKeyConflict => "idempotency_key_conflict",
    EventIdTaken => "event_id_taken",
    PayloadTooLarge => "payload_too_large",
    Internal => "internal",
    Unavailable => "unavailable",
});

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    #[error("{message}")]
    Invalid { message: String, details: Option<Value> },
    #[error("an API key is needed: send it as `Authorization: Bearer KEY`")]
    KeyMissing,
    #[error("this API key is not known here")]
    KeyUnknown,
    #[error("the key {name:?} has the role {}, which may not do this; it takes {}", role.as_str(), either(needed))]
    RoleForbidden { name: String, role: Role, needed: &'static [Role] },
    #[error("{0}")]
    NotLocal(String),
    #[error("there is nothing at {path:?}; /openapi.json lists what there is")]
    NoSuchRoute { path: String },
    #[error("there is no event {shown:?}")]
    NoSuchEvent { shown: String },
    #[error("{method} is not allowed here")]
    MethodNotAllowed { method: String },
    #[error("{message}")]
    TooLarge { message: String, details: Option<Value> },
    #[error("the body did not arrive in time; send it without pauses, or in smaller requests")]
    BodyTooSlow,
    #[error("event_id {event_id} is taken; leave it out to have one made, or choose another")]
    EventIdTaken { event_id: EventId, index: Option<usize> },
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Busy(&'static str),
    #[error("something went wrong here, and has been logged; it is not the request's fault")]
    Panicked,
}

fn either(roles: &[Role]) -> String {
    let names: Vec<&str> = roles.iter().map(|role| role.as_str()).collect();
    names.join(" or ")
}

impl ApiError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::Invalid { message: message.into(), details: None }
    }

    pub(crate) fn invalid_at(message: impl Into<String>, details: Value) -> Self {
        Self::Invalid { message: message.into(), details: Some(details) }
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid { .. } => StatusCode::BAD_REQUEST,
            Self::KeyMissing | Self::KeyUnknown => StatusCode::UNAUTHORIZED,
            Self::RoleForbidden { .. } | Self::NotLocal(_) => StatusCode::FORBIDDEN,
            Self::NoSuchRoute { .. } | Self::NoSuchEvent { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::EventIdTaken { .. } => StatusCode::CONFLICT,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Panicked => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Store(error) => match error {
                StoreError::Unavailable { .. } | StoreError::Contended { .. } => {
                    StatusCode::SERVICE_UNAVAILABLE
                }
                StoreError::EventNotFound { .. } => StatusCode::NOT_FOUND,
                StoreError::NotRequeueable { .. }
                | StoreError::NotCancellable { .. }
                | StoreError::IdempotencyConflict { .. }
                | StoreError::EventIdTaken { .. } => StatusCode::CONFLICT,
                StoreError::Rejected { .. } | StoreError::DestinationNotFound { .. } => {
                    StatusCode::INTERNAL_SERVER_ERROR
                }
            },
        }
    }

    pub(crate) fn code(&self) -> Code {
        match self {
            Self::Invalid { .. } => Code::InvalidRequest,
            Self::KeyMissing | Self::KeyUnknown => Code::Unauthorized,
            Self::RoleForbidden { .. } | Self::NotLocal(_) => Code::Forbidden,
            Self::NoSuchRoute { .. } => Code::NotFound,
            Self::NoSuchEvent { .. } => Code::WebhookOutboxEventNotFound,
            Self::MethodNotAllowed { .. } => Code::MethodNotAllowed,
            Self::EventIdTaken { .. } => Code::EventIdTaken,
            Self::TooLarge { .. } => Code::PayloadTooLarge,
            Self::BodyTooSlow => Code::RequestTimeout,
            Self::Busy(_) => Code::Unavailable,
            Self::Panicked => Code::Internal,
            Self::Store(error) => match error {
                StoreError::Unavailable { .. } | StoreError::Contended { .. } => Code::Unavailable,
                StoreError::EventNotFound { .. } => Code::WebhookOutboxEventNotFound,
                StoreError::NotRequeueable { .. } => Code::WebhookOutboxEventNotRequeueable,
                StoreError::NotCancellable { .. } => Code::WebhookOutboxEventNotCancellable,
                StoreError::IdempotencyConflict { .. } => Code::IdempotencyKeyConflict,
                StoreError::EventIdTaken { .. } => Code::EventIdTaken,
                StoreError::Rejected { .. } | StoreError::DestinationNotFound { .. } => Code::Internal,
            },
        }
    }

    /// What the client is told; what a store says of itself stays in the log.
    fn message(&self) -> String {
        match self {
            Self::Store(StoreError::Unavailable { .. }) => {
                "the store is unavailable; repeat the request in a moment, an enqueue under the same Idempotency-Key, \
                 because it may have been carried out"
                    .to_owned()
            }
            Self::Store(StoreError::Rejected { .. } | StoreError::DestinationNotFound { .. }) => {
                Self::Panicked.to_string()
            }
            Self::Store(error @ StoreError::Contended { .. }) => {
                format!("{error}; nothing was stored, repeat it when that transaction has ended")
            }
            other => other.to_string(),
        }
    }

    /// Once, because here it is handled. What a client did wrong is the client's to log.
    fn log(&self) {
        match self {
            Self::Store(error) if error.is_transient() => {
                tracing::warn!(code = error.code(), %error, "a request could not be answered");
            }
            Self::Store(error) if self.code() == Code::Internal => {
                tracing::error!(code = error.code(), %error, "a request was refused by the store");
            }
            _ => {}
        }
    }

    /// What goes into the body.
    pub(crate) fn envelope(&self) -> Envelope {
        Envelope {
            error: Told { code: self.code().as_str(), message: self.message(), details: self.details() },
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

    /// The header that a status of HTTP asks for.
    pub(crate) fn header(&self) -> Option<(header::HeaderName, HeaderValue)> {
        match self {
            Self::KeyMissing => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"posthaste\"")))
            }
            Self::KeyUnknown => Some((
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
    fn the_document_has_the_words_that_are_written() {
        let schema = serde_json::to_value(Code::schema()).unwrap();
        let words = schema["enum"].as_array().unwrap();
        assert_eq!(words.len(), 14);
        for word in words.iter().map(|word| word.as_str().unwrap()) {
            assert_eq!(Code::from_word(word).map(Code::as_str), Some(word));
        }
    }
}
