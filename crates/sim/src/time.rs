//! Simulated time, based on the runtime's paused clock.

use std::cell::Cell;
use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_store::StoreClock;
use tokio::time::Instant;

/// The timestamp at which every simulation begins.
const EPOCH: Timestamp = Timestamp::from_secs(1_800_000_000);

#[expect(clippy::disallowed_methods, reason = "simulated time is the runtime's paused clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "simulated time is the runtime's paused clock")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// True time. The store and the simulation use it; worker processes see it only through their own faulty clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorldClock {
    start: Instant,
}

thread_local! {
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Returns the simulated time since the start of the simulation that runs on this thread.
pub fn elapsed() -> Duration {
    STARTED.get().map_or(Duration::ZERO, |start| now().saturating_duration_since(start))
}

impl WorldClock {
    pub(crate) fn start() -> Self {
        let start = now();
        STARTED.set(Some(start));
        Self { start }
    }

    /// Returns the time since the start of the simulation.
    pub(crate) fn elapsed(self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    /// Converts a timestamp of the store to the time since the start of the simulation.
    pub(crate) fn elapsed_at(self, timestamp: Timestamp) -> Duration {
        timestamp.since(EPOCH)
    }

    /// Returns the present time as a timestamp of the store.
    pub(crate) fn timestamp(self) -> Timestamp {
        EPOCH.after(self.elapsed())
    }
}

impl StoreClock for WorldClock {
    fn now(&self) -> Timestamp {
        self.timestamp()
    }
}
