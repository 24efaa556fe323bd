//! The phases of a worker's shutdown.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// How far a worker's shutdown has progressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) enum Phase {
    #[default]
    Running,
    /// The worker claims nothing more; deliveries in flight finish.
    Draining,
    /// The worker aborts requests that are still being sent and releases their leases.
    Interrupted,
}

/// The current phase of a worker, which only moves forward. Waiters are woken in the order in which they began to
/// wait, so that a simulation repeats exactly.
#[derive(Debug, Default)]
pub(crate) struct PhaseTracker {
    current: Mutex<Phase>,
    changed: Notify,
}

impl PhaseTracker {
    pub(crate) fn current(&self) -> Phase {
        *self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves to `phase`, unless the worker is already past it.
    pub(crate) fn enter(&self, phase: Phase) {
        {
            let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
            *current = phase.max(*current);
        }
        self.changed.notify_waiters();
    }

    /// Resolves when the worker is in `phase` or past it.
    pub(crate) async fn reached(&self, phase: Phase) {
        loop {
            // Register for the notification before reading the phase, so that no change is missed in between.
            let changed = self.changed.notified();
            if self.current() >= phase {
                return;
            }
            changed.await;
        }
    }
}
