//! The one deadline of an attempt, and where the attempt stood when it passed.

use std::future::Future;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::ErrorClass;
use tokio::time::Instant;

use crate::failure::Failure;

/// Covers everything from the name lookup to the end of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    timeout: Duration,
    at: Instant,
}

/// Requests and connections live in real time, as their receivers do.
#[expect(clippy::disallowed_methods, reason = "the one place in this crate that reads a monotonic clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        Self { timeout, at: now() + timeout }
    }

    /// What the future gives, unless the deadline passes first.
    #[expect(clippy::disallowed_methods, reason = "a request's deadline is real time, as its receiver's is")]
    pub(crate) async fn within<T>(self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.at, future).await.ok()
    }

    pub(crate) fn passed(self, progress: &Progress) -> Failure {
        let stage = progress.stage().as_str();
        Failure::new(ErrorClass::Timeout, format!("no response within {:?}, {stage}", self.timeout))
    }
}

/// What an attempt is waiting for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) enum Stage {
    #[default]
    Lookup,
    Connect,
    Proxy,
    Tls,
    Response,
}

impl Stage {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Lookup => "while the name was looked up",
            Self::Connect => "while connecting",
            Self::Proxy => "while waiting for the egress proxy",
            Self::Tls => "during the TLS handshake",
            Self::Response => "after connecting",
        }
    }
}

/// Told by the steps of an attempt, read when its deadline passes.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<Stage>);

impl Progress {
    pub(crate) fn reached(&self, stage: Stage) {
        *self.stage() = stage;
    }

    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
