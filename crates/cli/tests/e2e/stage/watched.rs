//! Waiting, always for a fact and never for longer than [`PATIENCE`].

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Long enough for a machine that is busy with other things: what does not come within it does not come.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A value that other threads change and a test waits for.
#[derive(Default)]
pub(crate) struct Watched<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Watched<T> {
    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let changed = change(&mut self.value());
        self.changed.notify_all();
        changed
    }

    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&self.value())
    }

    /// What is found in the value as soon as it is there; none when it does not come.
    pub(crate) fn wait_for<R>(&self, mut find: impl FnMut(&T) -> Option<R>) -> Option<R> {
        let mut found = None;
        let missing = |value: &mut T| {
            found = find(value);
            found.is_none()
        };
        let waited = self.changed.wait_timeout_while(self.value(), PATIENCE, missing);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
        found
    }

    fn value(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks until there is an answer: for what only asking tells.
#[track_caller]
pub(crate) fn until<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    const PAUSE: Duration = Duration::from_millis(20);
    let started = Moment::now();
    while started.ago() < PATIENCE {
        if let Some(answer) = ask() {
            return answer;
        }
        #[expect(clippy::disallowed_methods, reason = "paces questions to another process")]
        std::thread::sleep(PAUSE);
    }
    panic!("not within {PATIENCE:?}: {what}");
}

/// A point in time. The processes under test live in real time, and so does whoever watches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Instant);

impl Moment {
    #[expect(clippy::disallowed_methods, reason = "measures other processes, from outside")]
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn ago(self) -> Duration {
        Self::now().since(self)
    }

    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}
