//! Errors of the API client. Each message contains advice for the user.

use std::time::Duration;

use http::StatusCode;
use posthaste::EntropyError;

use super::ServerUrl;
use crate::http_client::HttpError;

/// Why a call of the API failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{text:?} is not the URL of a server: {reason}; write it as http://127.0.0.1:8600")]
    InvalidServerUrl { text: String, reason: String },
    #[error(
        "the API key contains characters that are not allowed in a header; copy it exactly from the server's configuration"
    )]
    InvalidKey,
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    #[error("the idempotency key contains characters that are not allowed in a header; use visible ASCII")]
    InvalidIdempotencyKey,
    #[error(
        "no Posthaste runs at {server}: start it with `posthaste serve`, or name another server with --server ({reason})"
    )]
    Unreachable { server: String, reason: String },
    #[error(
        "no secure connection to {server}: {reason}; if the server has no TLS, write http:// instead of https://"
    )]
    Insecure { server: String, reason: String },
    #[error("{server} did not respond within {n} s: check its log, then try again", n = .timeout.as_secs())]
    Timeout { server: String, timeout: Duration },
    #[error(
        "{server} closed the connection before its response was complete ({reason}): check its log, then try again"
    )]
    Interrupted { server: String, reason: String },
    #[error(
        "{server} responded with {status}, but not as Posthaste does: check --server, and any proxy in front of the server"
    )]
    NotPosthaste { server: String, status: StatusCode },
    #[error(
        "the server's response cannot be read ({0}): the server and this command may have different versions"
    )]
    UnreadableResponse(String),
    /// The server responded with an error of the API.
    #[error("{message} ({code}){}", next_step(*.status))]
    Rejected { status: StatusCode, code: String, message: String },
    /// The server rejected a request because of the command's arguments.
    #[error("{message} ({code})")]
    InvalidArguments { code: String, message: String },
}

/// Returns advice to append to an API error: which flag or variable sets the API key. Empty for statuses other than 401
/// and 403.
fn next_step(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; set a key with --key or POSTHASTE_API_KEY",
        StatusCode::FORBIDDEN => "; --key or POSTHASTE_API_KEY sets the key",
        _ => "",
    }
}

impl ClientError {
    /// Converts an error of the HTTP client and adds the server's URL.
    pub(super) fn from_http(error: HttpError, server: &ServerUrl) -> Self {
        let server = server.to_string();
        match error {
            HttpError::Connect(reason) => Self::Unreachable { server, reason },
            HttpError::Tls(reason) => Self::Insecure { server, reason },
            HttpError::Timeout(timeout) => Self::Timeout { server, timeout },
            HttpError::Interrupted(reason) => Self::Interrupted { server, reason },
        }
    }

    /// Returns whether the error is in the command line, so that the command fails again until the user changes it.
    pub(crate) fn is_usage_error(&self) -> bool {
        matches!(
            self,
            Self::InvalidServerUrl { .. }
                | Self::InvalidKey
                | Self::InvalidIdempotencyKey
                | Self::InvalidArguments { .. }
        )
    }

    /// Turns a 400 or 422 response into [`Self::InvalidArguments`]. Only for requests whose content is all from the command
    /// line: a bad request that this program composed is not the user's mistake.
    pub(crate) fn blame_arguments(self) -> Self {
        match self {
            Self::Rejected {
                status: StatusCode::BAD_REQUEST | StatusCode::UNPROCESSABLE_ENTITY,
                code,
                message,
            } => Self::InvalidArguments { code, message },
            other => other,
        }
    }

    /// Returns whether the server may have applied the request: its response was lost, or it reports that its store did not
    /// respond in time.
    pub(super) fn may_be_applied(&self) -> bool {
        match self {
            Self::Timeout { .. } | Self::Interrupted { .. } => true,
            Self::Rejected { status, .. } | Self::NotPosthaste { status, .. } => {
                matches!(status.as_u16(), 502..=504)
            }
            _ => false,
        }
    }

    /// Returns whether the same request may succeed later.
    pub(crate) fn is_transient(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Timeout { .. } | Self::Interrupted { .. } => true,
            Self::Rejected { status, .. } | Self::NotPosthaste { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }

    /// Returns whether the server rejected the request because of this one event. Requests for other events may
    /// succeed.
    pub(crate) fn is_event_rejection(&self) -> bool {
        matches!(self, Self::Rejected { status, .. } if matches!(status.as_u16(), 400 | 404 | 409))
    }
}
