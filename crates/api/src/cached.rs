//! A value that is computed at most once in a period, usually a second, however many requests need it.
//!
//! It protects the store from callers of `/metrics` and `/readyz`, some of which need no key.

use std::time::Duration;

use posthaste_engine::Clock;
use tokio::sync::Mutex;

/// How long a value is served from the cache by default.
const MAX_AGE: Duration = Duration::from_secs(1);

/// A cache for one value, which expires after its maximum age.
pub(crate) struct Cached<T> {
    max_age: Duration,
    latest: Mutex<Option<(Duration, T)>>,
}

impl<T> Default for Cached<T> {
    fn default() -> Self {
        Self::with_max_age(MAX_AGE)
    }
}

impl<T> Cached<T> {
    pub(crate) fn with_max_age(max_age: Duration) -> Self {
        Self { max_age, latest: Mutex::new(None) }
    }
}

impl<T: Clone> Cached<T> {
    /// Returns the cached value, or awaits `compute` if the value is older than the maximum age.
    ///
    /// Concurrent callers wait for one computation and share its value, however long it took: a value that was completed
    /// after the call began is always fresh enough.
    pub(crate) async fn get_or_compute(&self, clock: &dyn Clock, compute: impl Future<Output = T>) -> T {
        let called_at = clock.monotonic();
        let mut latest = self.latest.lock().await;
        if let Some((computed_at, value)) = &*latest
            && (*computed_at >= called_at || called_at - *computed_at < self.max_age)
        {
            return value.clone();
        }
        let value = compute.await;
        *latest = Some((clock.monotonic(), value.clone()));
        value
    }
}
