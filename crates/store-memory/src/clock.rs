//! A clock that stands still until a test moves it.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_store::StoreClock;

pub struct ManualClock(AtomicI64);

impl ManualClock {
    pub fn at(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_micros()))
    }

    pub fn advance(&self, by: Duration) {
        self.0.store(self.now().after(by).as_micros(), Ordering::SeqCst);
    }
}

impl StoreClock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}
