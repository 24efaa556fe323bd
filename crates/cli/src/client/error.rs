//! Why the server could not be asked or did not do it, and what to do next.

use std::time::Duration;

use http::StatusCode;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ClientError {
    #[error("{0:?} is not the URL of a server: {1}; write it as http://127.0.0.1:8600")]
    Server(String, String),
    #[error(
        "the API key holds characters that no header can; give it exactly as the server's configuration has it"
    )]
    Key,
    #[error("the idempotency key holds characters that no header can; use visible ASCII")]
    IdempotencyKey,
    #[error(
        "no Posthaste answers at {0}: start it with `posthaste serve`, or name another with --server ({1})"
    )]
    Unreachable(String, String),
    #[error("no secure connection to {0}: {1}; a plain server is http://, not https://")]
    Insecure(String, String),
    #[error("{0} did not answer within {n} s: look at its log, and ask again", n = .1.as_secs())]
    Silent(String, Duration),
    #[error("{0} broke the connection off before it had answered ({1}): look at its log, and ask again")]
    Broken(String, String),
    #[error("{server} answered {status}, not as Posthaste does: check --server, and any proxy on the way")]
    NotPosthaste { server: String, status: StatusCode },
    #[error("the server's answer cannot be read ({0}): server and command line may be of different versions")]
    Unreadable(String),
    #[error("{message} ({code}){}", next_step(*.status))]
    Refused { status: StatusCode, code: String, message: String },
    /// Refused for what the person gave.
    #[error("{message} ({code})")]
    Arguments { code: String, message: String },
}

/// What the message of the API cannot know: how this command line is told.
fn next_step(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "; give a key with --key or POSTHASTE_API_KEY",
        StatusCode::FORBIDDEN => "; use a key of another role with --key or POSTHASTE_API_KEY",
        _ => "",
    }
}

impl ClientError {
    /// The command line must change before it can work.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(self, Self::Server(..) | Self::Key | Self::IdempotencyKey | Self::Arguments { .. })
    }

    /// Of a request that holds what the person gave and nothing else: if that makes it a bad one, the command line must
    /// change. A bad request of our own making is none of theirs.
    pub(crate) fn of_arguments(self) -> Self {
        match self {
            Self::Refused { status: StatusCode::BAD_REQUEST, code, message } => {
                Self::Arguments { code, message }
            }
            other => other,
        }
    }

    /// It may work when asked again, with nothing changed.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Unreachable(..) | Self::Silent(..) | Self::Broken(..) => true,
            Self::Refused { status, .. } | Self::NotPosthaste { status, .. } => {
                status.is_server_error() || *status == StatusCode::TOO_MANY_REQUESTS
            }
            _ => false,
        }
    }

    /// Refused for the one event that was asked about; others may still be granted.
    pub(crate) fn is_about_the_event(&self) -> bool {
        matches!(self, Self::Refused { status, .. } if matches!(status.as_u16(), 400 | 404 | 409))
    }
}
