//! A worker's own clock: for timers and for measuring, never for leases.

use std::future::Future;
use std::time::Duration;

use futures_util::future::BoxFuture;
use tokio::time::Instant;

/// Which moments leases, retries and signatures name is the store's and the sender's business; the engine only
/// measures how long things take. Injected, so that the simulation can let it run fast, slow or stall.
pub trait Clock: Send + Sync + 'static {
    /// Time since some fixed moment; never goes back.
    fn monotonic(&self) -> Duration;

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
}

/// The runtime's clock; paused and moved with it in tests.
#[derive(Debug)]
pub struct TokioClock {
    start: Instant,
}

#[expect(clippy::disallowed_methods, reason = "the one adapter of the runtime's clock")]
impl TokioClock {
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
}

/// What the future gives, unless the limit passes first.
pub async fn within<T>(clock: &dyn Clock, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep(limit) => None,
    }
}
