//! The phases of a worker's shutdown.

use std::sync::atomic::{AtomicU8, Ordering};

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

impl Phase {
    const ALL: [Self; 3] = [Self::Running, Self::Draining, Self::Interrupted];
}

/// The current phase of a worker, which only moves forward. Waiters are woken in the order in which they began to
/// wait, so that a simulation repeats exactly.
#[derive(Debug, Default)]
pub(crate) struct PhaseTracker {
    /// Index of the phase in [`Phase::ALL`]. Every delivery reads it, so reading takes no lock.
    current: AtomicU8,
    changed: Notify,
}

impl PhaseTracker {
    pub(crate) fn current(&self) -> Phase {
        Phase::ALL[usize::from(self.current.load(Ordering::SeqCst))]
    }

    /// Moves to `phase`, unless the worker is already past it.
    pub(crate) fn enter(&self, phase: Phase) {
        self.current.fetch_max(phase as u8, Ordering::SeqCst);
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
