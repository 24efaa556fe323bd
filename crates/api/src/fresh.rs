//! A reading that is taken again only when it has aged, however many ask: what costs a store something is asked of it
//! at most once a second, also by those who need no key.

use std::time::Duration;

use posthaste_engine::Clock;
use tokio::sync::Mutex;

/// How long a reading stands for the present.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// Who asks while a reading is being taken waits for it.
pub(crate) struct Fresh<T> {
    latest: Mutex<Option<(Duration, T)>>,
}

impl<T> Default for Fresh<T> {
    fn default() -> Self {
        Self { latest: Mutex::new(None) }
    }
}

impl<T: Clone> Fresh<T> {
    /// The latest reading, or a new one. Counts from when it was asked for: an answer that took long is not new.
    pub(crate) async fn get(&self, clock: &dyn Clock, reading: impl Future<Output = T>) -> T {
        let mut latest = self.latest.lock().await;
        let now = clock.monotonic();
        if let Some((taken_at, value)) = &*latest
            && now.saturating_sub(*taken_at) < FRESH_FOR
        {
            return value.clone();
        }
        let value = reading.await;
        *latest = Some((now, value.clone()));
        value
    }
}

/// What the future gives, unless the limit passes first.
pub(crate) async fn within<T>(
    clock: &dyn Clock,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        value = future => Some(value),
        () = clock.sleep(limit) => None,
    }
}
