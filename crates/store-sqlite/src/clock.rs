//! The clock of a running store.

use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_domain::Timestamp;
use posthaste_store::StoreClock;

/// The host's clock: all processes on one database file share it.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl StoreClock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "this is the store's clock, injected everywhere that time is told"
    )]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(0).after(since_epoch)
    }
}
