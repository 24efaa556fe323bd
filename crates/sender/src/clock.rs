//! The wall clock. Signatures carry its time, and receivers compare that with their own clock.

use std::time::{Duration, SystemTime};

use posthaste_domain::Timestamp;

/// A source of wall-clock time, for signatures and for display. Not for measuring durations: it may jump.
pub trait WallClock: Send + Sync + 'static {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}

/// The host's wall clock.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl WallClock for SystemClock {
    #[expect(
        clippy::disallowed_methods,
        reason = "the only code in this crate that reads the host's wall clock"
    )]
    fn now(&self) -> Timestamp {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Timestamp::default().after(since_epoch)
    }
}
