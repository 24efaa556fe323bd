//! Simulated time: the runtime's paused clock.

use std::cell::Cell;
use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_store::StoreClock;
use tokio::time::Instant;

/// When every simulation begins.
const EPOCH: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A moment on the runtime's clock.
#[expect(clippy::disallowed_methods, reason = "simulated time is the runtime's paused clock")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "simulated time is the runtime's paused clock")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// True time, which only the store and the simulation itself know.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorldClock {
    start: Instant,
}

thread_local! {
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// How far into its simulation this thread is.
pub fn elapsed() -> Duration {
    STARTED.get().map_or(Duration::ZERO, |start| now().saturating_duration_since(start))
}

impl WorldClock {
    pub(crate) fn start() -> Self {
        let start = now();
        STARTED.set(Some(start));
        Self { start }
    }

    pub(crate) fn elapsed(self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    /// How far into the simulation a moment of the store's lies.
    pub(crate) fn elapsed_at(self, moment: Timestamp) -> Duration {
        moment.since(EPOCH)
    }

    pub(crate) fn timestamp(self) -> Timestamp {
        EPOCH.after(self.elapsed())
    }
}

impl StoreClock for WorldClock {
    fn now(&self) -> Timestamp {
        self.timestamp()
    }
}
