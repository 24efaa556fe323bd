//! A worker's own clock. It drives timers and measures durations; it never decides whether a lease has expired.

use std::future::Future;
use std::time::{Duration, SystemTime};

use futures_util::future::BoxFuture;
use posthaste_domain::Timestamp;
use tokio::time::Instant;

/// The engine's source of time: durations and timers, and the host's wall clock for comparison only.
///
/// The store's clock dates leases, retries and signatures. The simulation injects a clock that runs fast, runs slow,
/// stalls, or shows a wrong time.
pub trait Clock: Send + Sync + 'static {
    /// Returns the time since a fixed but arbitrary instant. Never decreases.
    fn monotonic(&self) -> Duration;

    /// Resolves after `duration`.
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;

    /// Returns the time of the host's wall clock. The engine only compares it with the store's clock, to report a
    /// difference; no decision depends on it.
    fn host_time(&self) -> Timestamp;
}

/// Returns the time of the host's wall clock, which may be wrong and may jump. For display, and to verify signatures.
#[expect(clippy::disallowed_methods, reason = "the one adapter of the host's wall clock")]
pub fn host_time() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
    Timestamp::default().after(since_epoch)
}

/// The clock of the tokio runtime. Tests can pause and advance it, as they pause the runtime's time.
#[derive(Debug)]
pub struct TokioClock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the one adapter of the runtime's clock")]
impl TokioClock {
    /// Creates a clock whose [`Clock::monotonic`] counts from now.
    pub fn start() -> Self {
        Self { start: Instant::now() }
    }
}

#[expect(clippy::disallowed_methods, reason = "the one adapter of the runtime's clock")]
impl Clock for TokioClock {
    fn monotonic(&self) -> Duration {
        Instant::now().saturating_duration_since(self.start)
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        Box::pin(tokio::time::sleep(duration))
    }

    fn host_time(&self) -> Timestamp {
        host_time()
    }
}

/// Awaits `future` for at most `limit`. Returns `None` on timeout; a future that is ready at the limit still wins.
pub async fn within<T>(clock: &dyn Clock, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep(limit) => None,
    }
}
