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
    /// The latest reading, or a new one. One that was finished since it was asked for is new, however long it took:
    /// those who waited for it do not take one each.
    pub(crate) async fn get(&self, clock: &dyn Clock, reading: impl Future<Output = T>) -> T {
        let asked_at = clock.monotonic();
        let mut latest = self.latest.lock().await;
        if let Some((taken_at, value)) = &*latest
            && (*taken_at >= asked_at || asked_at - *taken_at < FRESH_FOR)
        {
            return value.clone();
        }
        let value = reading.await;
        *latest = Some((clock.monotonic(), value.clone()));
        value
    }
}
