//! Simulated time, based on the runtime's paused clock.

use std::cell::{Cell, RefCell};
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

/// True time, and the store's clock, which may step back. Worker processes see true time only through their own faulty
/// clocks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WorldClock {
    start: Instant,
}

thread_local! {
    static STARTED: Cell<Option<Instant>> = const { Cell::new(None) };
    static STEPS: RefCell<Vec<ClockStep>> = const { RefCell::new(Vec::new()) };
}

/// A step of the store's clock.
#[derive(Debug, Clone, Copy)]
struct ClockStep {
    /// Time since the start of the simulation.
    at: Duration,
    /// How far the store's clock is behind from then on.
    behind: Duration,
}

/// Returns the simulated time since the start of the simulation that runs on this thread.
pub fn elapsed() -> Duration {
    STARTED.get().map_or(Duration::ZERO, |start| now().saturating_duration_since(start))
}

impl WorldClock {
    pub(crate) fn start() -> Self {
        let start = now();
        STARTED.set(Some(start));
        STEPS.take();
        Self { start }
    }

    /// Moves the store's clock back.
    pub(crate) fn step_back(self, by: Duration) {
        let step = ClockStep { at: self.elapsed(), behind: self.behind() + by };
        STEPS.with_borrow_mut(|steps| steps.push(step));
    }

    /// Returns how far the store's clock is behind.
    fn behind(self) -> Duration {
        STEPS.with_borrow(|steps| steps.last().map_or(Duration::ZERO, |step| step.behind))
    }

    /// Returns the time since the start of the simulation.
    pub(crate) fn elapsed(self) -> Duration {
        now().saturating_duration_since(self.start)
    }

    /// Converts a timestamp to the time since the start of the simulation at which the store's clock shows it, if the clock
    /// does not step again.
    pub(crate) fn elapsed_at(self, timestamp: Timestamp) -> Duration {
        timestamp.after(self.behind()).since(EPOCH)
    }

    /// Returns the time of the store's clock.
    pub(crate) fn timestamp(self) -> Timestamp {
        self.true_time().before(self.behind())
    }

    /// Returns the time of a clock that is right.
    pub(crate) fn true_time(self) -> Timestamp {
        EPOCH.after(self.elapsed())
    }

    /// Returns the latest time that the store's clock has shown since this time since the start of the simulation.
    pub(crate) fn latest_timestamp_since(self, since: Duration) -> Timestamp {
        let behind_before = |steps: &[ClockStep], index: usize| {
            index.checked_sub(1).map_or(Duration::ZERO, |before| steps[before].behind)
        };
        let before_steps = STEPS.with_borrow(|steps| {
            let within = steps.iter().enumerate().filter(|(_, step)| step.at >= since);
            let shown = within.map(|(index, step)| EPOCH.after(step.at).before(behind_before(steps, index)));
            shown.max()
        });
        self.timestamp().max(before_steps.unwrap_or(EPOCH))
    }

    /// Returns the present times of the store's clock, without the steps of the last `window` and with each of them.
    pub(crate) fn timestamps_by_steps_within(self, window: Duration) -> Vec<Timestamp> {
        let since = self.elapsed().saturating_sub(window);
        let (before, within): (Vec<ClockStep>, Vec<ClockStep>) =
            STEPS.with_borrow(|steps| steps.iter().partition(|step| step.at < since));
        let first = before.last().map_or(Duration::ZERO, |step| step.behind);
        let behind = std::iter::once(first).chain(within.iter().map(|step| step.behind));
        behind.map(|behind| self.true_time().before(behind)).collect()
    }
}

impl StoreClock for WorldClock {
    fn now(&self) -> Timestamp {
        self.timestamp()
    }
}
