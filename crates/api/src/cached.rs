//! A value that is computed at most once a second, however many requests need it.
//!
//! It protects the store from callers of `/metrics` and `/readyz`, some of which need no key.

use std::time::Duration;

use posthaste_engine::Clock;
use tokio::sync::Mutex;

/// How long a value is served from the cache.
const MAX_AGE: Duration = Duration::from_secs(1);

/// A cache for one value, which expires after a second.
pub(crate) struct Cached<T> {
    latest: Mutex<Option<(Duration, T)>>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self { latest: Mutex::new(None) }
    }
}

impl<T: Clone> Cached<T> {
    /// Returns the cached value, or awaits `compute` if the value is older than a second.
    ///
    /// Concurrent callers wait for one computation and share its value, however long it took: a value that was completed
    /// after the call began is always fresh enough.
    pub(crate) async fn get_or_compute(&self, clock: &dyn Clock, compute: impl Future<Output = T>) -> T {
        let called_at = clock.monotonic();
        let mut latest = self.latest.lock().await;
        if let Some((computed_at, value)) = &*latest
            && (*computed_at >= called_at || called_at - *computed_at < MAX_AGE)
        {
            return value.clone();
        }
        let value = compute.await;
        *latest = Some((clock.monotonic(), value.clone()));
        value
    }
}
