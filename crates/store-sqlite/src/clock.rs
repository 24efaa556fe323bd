//! The clock of a store in production.

use std::time::{SystemTime, UNIX_EPOCH};

use posthaste_domain::Timestamp;
use posthaste_store::StoreClock;

/// The host's clock, which all processes on one database file share.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl StoreClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock that the store injects everywhere else")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(0).after(since_epoch)
    }
}
