//! How far a worker is on its way out.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Phase {
    #[default]
    Running,
    /// Nothing more is claimed; what is in flight finishes.
    Draining,
    /// What is still being sent is given back.
    Interrupted,
}

/// Moves forward only. Those who wait are woken in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Phases {
    current: Mutex<Phase>,
    changed: Notify,
}

impl Phases {
    pub(crate) fn current(&self) -> Phase {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter(&self, phase: Phase) {
        {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            *current = phase.max(*current);
        }
        self.changed.notify_waiters();
    }

    /// Resolves when the worker is at least this far.
    pub(crate) async fn reached(&self, phase: Phase) {
        loop {
            // Waiting begins before the phase is read, so that no change falls between the two.
            let changed = self.changed.notified();
            if self.current() >= phase {
                return;
            }
            changed.await;
        }
    }
}
