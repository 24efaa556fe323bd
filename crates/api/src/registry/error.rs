//! Errors of the registry's API, in the shapes that the SDKs parse: `{"code","detail"}`, and for 422 a list of problems.

use axum::Json;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use posthaste_store::StoreError;
use serde::Serialize;
use utoipa::ToSchema;

use crate::error::ApiError;

/// The body of every error but 422.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HttpError)]
pub(crate) struct ErrorBody {
    /// For programs: a stable code.
    #[schema(example = "not_found")]
    pub(crate) code: &'static str,
    /// For people: what happened, which value caused it, and what to do.
    pub(crate) detail: String,
}

/// The body of a 422.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = HttpValidationError)]
pub(crate) struct ValidationErrorBody {
    detail: Vec<Problem>,
}

/// One value of the request that was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = ValidationError)]
pub(crate) struct Problem {
    /// Where the value is: `body`, `query` or `header`, and the names of the fields that lead to it.
    #[schema(example = json!(["body", "url"]))]
    pub(crate) loc: Vec<String>,
    pub(crate) msg: String,
    #[serde(rename = "type")]
    #[schema(example = "value_error")]
    pub(crate) kind: &'static str,
}

/// The error of a failed request to the registry.
#[derive(Debug)]
pub(crate) enum RegistryError {
    /// A value of the body, the query or a header breaks a rule.
    Invalid(Problem),
    /// A parameter of the query has the wrong type.
    IllTyped(String),
    /// No known key or valid token.
    Unauthenticated(String),
    Forbidden(String),
    NotFound(String),
    /// A route that the SDKs know and this server does not have.
    NotSupported {
        path: String,
    },
    MethodNotAllowed {
        method: String,
    },
    BodyTooSlow,
    TooLarge(String),
    UnsupportedMediaType(String),
    /// The operation needs a secret for tokens.
    NoTokenSecret,
    Busy(&'static str),
    Internal,
    Store(StoreError),
}

impl RegistryError {
    /// Builds the error of a refused value in the body.
    pub(crate) fn in_body(field: &str, message: impl ToString) -> Self {
        Self::in_fields(&["body", field], message)
    }

    /// Builds the error of a refused parameter of the query.
    pub(crate) fn in_query(parameter: &str, message: impl ToString) -> Self {
        Self::in_fields(&["query", parameter], message)
    }

    #[expect(clippy::needless_pass_by_value, reason = "callers pass errors, texts and references alike")]
    pub(crate) fn in_fields(loc: &[&str], message: impl ToString) -> Self {
        let loc = loc.iter().map(|&part| part.to_owned()).collect();
        Self::Invalid(Problem { loc, msg: message.to_string(), kind: "value_error" })
    }

    /// Builds the error for a text of the path that can be no id, so that no resource has it.
    pub(crate) fn no_such(resource: &str, text: &str) -> Self {
        let shown: String = text.chars().take(64).collect();
        Self::NotFound(format!("there is no {resource} {shown:?}"))
    }

    pub(crate) fn status(&self) -> StatusCode {
        match self {
            Self::Invalid(_) => StatusCode::UNPROCESSABLE_ENTITY,
            Self::IllTyped(_) | Self::NoTokenSecret => StatusCode::BAD_REQUEST,
            Self::Unauthenticated(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) | Self::NotSupported { .. } => StatusCode::NOT_FOUND,
            Self::MethodNotAllowed { .. } => StatusCode::METHOD_NOT_ALLOWED,
            Self::BodyTooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::UnsupportedMediaType(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Internal => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Store(error) => store_status(error),
        }
    }

    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "validation",
            Self::IllTyped(_) => "generic_error",
            Self::NoTokenSecret => "no_token_secret",
            Self::Unauthenticated(_) => "authentication_failed",
            Self::Forbidden(_) => "permission_denied",
            Self::NotFound(_) => "not_found",
            Self::NotSupported { .. } => "not_supported",
            Self::MethodNotAllowed { .. } => "method_not_allowed",
            Self::BodyTooSlow => "request_timeout",
            Self::TooLarge(_) => "payload_too_large",
            Self::UnsupportedMediaType(_) => "unsupported_media_type",
            Self::Busy(_) => "unavailable",
            Self::Internal => "server_error",
            Self::Store(error) if self.status() != StatusCode::INTERNAL_SERVER_ERROR => error.code(),
            Self::Store(_) => "server_error",
        }
    }

    /// Returns the text for the caller. A store's own failure is internal and stays in the log.
    fn detail(&self) -> String {
        match self {
            Self::Invalid(problem) => problem.msg.clone(),
            Self::IllTyped(detail)
            | Self::Unauthenticated(detail)
            | Self::Forbidden(detail)
            | Self::NotFound(detail)
            | Self::TooLarge(detail)
            | Self::UnsupportedMediaType(detail) => detail.clone(),
            Self::NotSupported { path } => {
                format!("{path:?} is not supported; /api/v1/openapi.json lists the available paths")
            }
            Self::MethodNotAllowed { method } => format!("{method} is not allowed here"),
            Self::BodyTooSlow => ApiError::BodyTooSlow.to_string(),
            Self::NoTokenSecret => {
                "this server issues no tokens, because it has no secret for them; set jwt_secret".to_owned()
            }
            Self::Busy(detail) => (*detail).to_owned(),
            Self::Store(StoreError::Unavailable { .. }) => {
                "the store is unavailable; repeat the request in a moment with the same idempotency-key"
                    .to_owned()
            }
            Self::Store(error) if self.status() != StatusCode::INTERNAL_SERVER_ERROR => error.to_string(),
            Self::Internal | Self::Store(_) => ApiError::Panicked.to_string(),
        }
    }

    /// Logs the store's failures. Errors of callers are not logged.
    fn log(&self) {
        match self {
            Self::Store(error) if error.is_transient() => {
                tracing::warn!(code = error.code(), %error, "request failed: the store is unavailable");
            }
            Self::Store(error) if self.status() == StatusCode::INTERNAL_SERVER_ERROR => {
                tracing::error!(code = error.code(), %error, "request failed: the store rejected it");
            }
            _ => {}
        }
    }
}

fn store_status(error: &StoreError) -> StatusCode {
    match error {
        StoreError::Unavailable { .. } | StoreError::Busy { .. } => StatusCode::SERVICE_UNAVAILABLE,
        StoreError::ApplicationNotFound { .. }
        | StoreError::EndpointNotFound { .. }
        | StoreError::MessageNotFound { .. }
        | StoreError::AttemptNotFound { .. }
        | StoreError::EventTypeNotFound { .. }
        | StoreError::OperationNotFound { .. } => StatusCode::NOT_FOUND,
        StoreError::UidTaken { .. } | StoreError::EventTypeTaken { .. } => StatusCode::CONFLICT,
        StoreError::EndpointDisabled { .. }
        | StoreError::PayloadExpunged { .. }
        | StoreError::TooManyKeys { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

impl From<StoreError> for RegistryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::UnknownEventTypes { .. } => Self::in_body("eventTypes", error),
            other => Self::Store(other),
        }
    }
}

/// Converts an error of reading a body.
impl From<ApiError> for RegistryError {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::TooLarge { message, .. } => Self::TooLarge(message),
            ApiError::BodyTooSlow => Self::BodyTooSlow,
            ApiError::Busy(message) => Self::Busy(message),
            ApiError::Store(error) => error.into(),
            other => Self::in_fields(&["body"], other),
        }
    }
}

impl IntoResponse for RegistryError {
    fn into_response(self) -> Response {
        self.log();
        let status = self.status();
        if let Self::Invalid(problem) = self {
            return (status, Json(ValidationErrorBody { detail: vec![problem] })).into_response();
        }
        let body = ErrorBody { code: self.code(), detail: self.detail() };
        let mut response = (status, Json(body)).into_response();
        let extra = match status {
            StatusCode::UNAUTHORIZED => {
                Some((header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer realm=\"posthaste\"")))
            }
            StatusCode::SERVICE_UNAVAILABLE => Some((header::RETRY_AFTER, HeaderValue::from_static("1"))),
            _ => None,
        };
        response.headers_mut().extend(extra);
        response
    }
}
