//! The clock that signatures name: receivers compare it with their own.

use std::time::{Duration, SystemTime};

use posthaste_domain::Timestamp;

/// Tells what time it is for people and receivers; never used to measure.
pub trait WallClock: Send + Sync + 'static {
    fn now(&self) -> Timestamp;
}

/// The host's clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the one adapter of the host's clock in this crate")]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::default().after(since_epoch)
    }
}
