//! A clock that a test advances by hand.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_store::StoreClock;

/// A clock that changes only when a test moves it.
pub struct ManualClock(AtomicI64);

impl ManualClock {
    /// Creates a clock that shows `start`.
    pub fn at(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_micros()))
    }

    /// Moves the clock forward.
    pub fn advance(&self, by: Duration) {
        self.0.store(self.now().after(by).as_micros(), Ordering::SeqCst);
    }

    /// Moves the clock back, as the correction of a wrong clock does.
    pub fn step_back(&self, by: Duration) {
        self.0.store(self.now().before(by).as_micros(), Ordering::SeqCst);
    }
}

impl StoreClock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
