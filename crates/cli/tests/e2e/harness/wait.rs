//! Waiting for a condition. Every wait ends after [`TIMEOUT`] at the latest.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait of a test for one condition. It is long enough for a busy machine.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// A value that background threads update and that a test can wait on.
#[derive(Default)]
pub(crate) struct SharedState<T> {
    value: Mutex<T>,
    updated: Condvar,
}

impl<T> SharedState<T> {
    /// Changes the value and wakes all waiting threads.
    pub(crate) fn update<R>(&self, update: impl FnOnce(&mut T) -> R) -> R {
        let result = update(&mut self.lock());
        self.updated.notify_all();
        result
    }

    pub(crate) fn read<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        read(&self.lock())
    }

    /// Waits until `find` returns a result; returns None after [`TIMEOUT`].
    pub(crate) fn wait_for<R>(&self, mut find: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut found = None;
        let is_missing = |value: &mut T| {
            found = find(value);
            found.is_none()
        };
        let waited = self.updated.wait_timeout_while(self.lock(), TIMEOUT, is_missing);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        found
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Polls until `poll` returns a result. Panics with `condition` after [`TIMEOUT`].
#[track_caller]
pub(crate) fn wait_until<T>(condition: &str, mut poll: impl FnMut() -> Option<T>) -> T {
    const POLL_INTERVAL: Duration = Duration::from_millis(20);
    let started = RealInstant::now();
    while started.elapsed() < TIMEOUT {
        if let Some(result) = poll() {
            return result;
        }
        #[expect(clippy::disallowed_methods, reason = "paces polls of another process")]
        std::thread::sleep(POLL_INTERVAL);
    }
    panic!("not true within {TIMEOUT:?}: {condition}");
}

/// A point in real time. The processes under test run in real time, so the tests must read the real clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RealInstant(Instant);

impl RealInstant {
    #[expect(clippy::disallowed_methods, reason = "measures other processes in real time")]
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn elapsed(self) -> Duration {
        Self::now().duration_since(self)
    }

    pub(crate) fn duration_since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}
