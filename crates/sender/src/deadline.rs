//! The deadline of an attempt, and the phase that the attempt had reached when it passed.

use std::future::Future;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use posthaste_domain::ErrorClass;
use tokio::time::Instant;

use crate::failure::Failure;

/// A point in time that ends an operation, such as everything from the name lookup to the end of the response.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadline {
    timeout: Duration,
    at: Instant,
}

/// Returns the current monotonic time. Requests and connections run in real time, as their receivers do.
#[expect(clippy::disallowed_methods, reason = "the only code in this crate that reads a monotonic clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

impl Deadline {
    pub(crate) fn after(timeout: Duration) -> Self {
        Self { timeout, at: now() + timeout }
    }

    /// Returns the time since the operation began.
    pub(crate) fn elapsed(self) -> Duration {
        self.timeout.saturating_sub(self.at.saturating_duration_since(now()))
    }

    /// Awaits the future. Drops it and returns `None` if the deadline passes first.
    #[expect(clippy::disallowed_methods, reason = "a request's deadline is real time, as its receiver's is")]
    pub(crate) async fn within<T>(self, future: impl Future<Output = T>) -> Option<T> {
        tokio::time::timeout_at(self.at, future).await.ok()
    }

    /// Builds the failure of an attempt that reached its deadline.
    pub(crate) fn timeout_failure(self, progress: &Progress) -> Failure {
        let phase = progress.phase().as_str();
        Failure::new(ErrorClass::Timeout, format!("no response within {:?}, {phase}", self.timeout))
    }
}

/// The phase of an attempt: the operation that it is waiting for.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Phase {
    Lookup,
    Connect,
    Proxy,
    Tls,
    Response,
}

impl Phase {
    const ALL: [Self; 5] = [Self::Lookup, Self::Connect, Self::Proxy, Self::Tls, Self::Response];

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

/// The current phase of one attempt, `Lookup` at first. Each phase records itself here; the timeout failure names the last
/// one.
#[derive(Debug, Default)]
pub(crate) struct Progress(AtomicU8);

impl Progress {
    pub(crate) fn enter(&self, phase: Phase) {
        self.0.store(phase as u8, Ordering::Relaxed);
    }

    fn phase(&self) -> Phase {
        Phase::ALL[usize::from(self.0.load(Ordering::Relaxed))]
    }
}
