//! The due times of the retries that this worker has scheduled. They wake the claimer, so that a retry does not wait for
//! the next poll.
//!
//! Each worker wakes for its own retries. Polls find the others: those of a worker that has stopped, or that has no
//! free slot when they are due.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Clock;

/// Due times within one tick share a wake-up, so that many retries cause at most a hundred claims per second.
const TICK_MS: u128 = 10;
/// Upper bound of the set. Beyond it, the latest due times are dropped, and polls find their retries.
const TIMES_MAX: usize = 10_000;
/// Shortest wait for a due time. A timer may end a fraction of a millisecond early, and would then be set again and again.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// Fraction of a delay, as its divisor, by which the worker's clock may run fast. A wake-up before the retry is due would
/// find nothing.
const CLOCK_DRIFT_DIVISOR: u32 = 10_000;

/// The due times of scheduled retries, by the worker's clock.
#[derive(Debug, Default)]
pub(crate) struct DueTimes {
    times: Mutex<BTreeSet<Duration>>,
    /// Notified when an earlier due time than all others was added.
    earlier: Notify,
}

impl DueTimes {
    /// Adds the due time of a retry that was scheduled at `now`.
    pub(crate) fn add(&self, delay: Duration, now: Duration) {
        let due = round_up(now.saturating_add(delay).saturating_add(delay / CLOCK_DRIFT_DIVISOR));
        let mut times = self.times();
        let is_earliest = times.first().is_none_or(|first| due < *first);
        times.insert(due);
        if times.len() > TIMES_MAX {
            times.pop_last();
        }
        drop(times);
        if is_earliest {
            self.earlier.notify_one();
        }
    }

    /// Removes the due times up to `now`, because a claim made now finds their retries. Returns whether there were any.
    pub(crate) fn remove_reached(&self, now: Duration) -> bool {
        let mut times = self.times();
        let reached = times.first().is_some_and(|first| *first <= now);
        if reached {
            times.retain(|due| *due > now);
        }
        reached
    }

    /// Resolves when a due time has been reached.
    pub(crate) async fn reached(&self, clock: &dyn Clock) {
        loop {
            let now = clock.monotonic();
            let first = self.times().first().copied();
            match first {
                Some(due) if due <= now => return,
                Some(due) => tokio::select! {
                    biased;
                    () = self.earlier.notified() => {}
                    () = clock.sleep((due - now).max(WAIT_MIN)) => {}
                },
                None => self.earlier.notified().await,
            }
        }
    }

    fn times(&self) -> MutexGuard<'_, BTreeSet<Duration>> {
        self.times.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Rounds up to the next tick.
fn round_up(time: Duration) -> Duration {
    let ticks = time.as_micros().div_ceil(TICK_MS * 1_000);
    Duration::from_millis(u64::try_from(ticks * TICK_MS).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn due_times_of_one_tick_are_one_wake_up_and_never_early() {
        let due = DueTimes::default();
        for delay in [1_001, 1_002, 1_009] {
            due.add(ms(delay), ms(0));
        }
        assert_eq!(due.times().len(), 1);
        assert!(!due.remove_reached(ms(1_009)) && due.remove_reached(ms(1_010)));
        assert!(!due.remove_reached(ms(1_010)), "it was removed");
    }

    #[test]
    fn clock_that_runs_fast_does_not_wake_before_an_hour_has_passed() {
        let due = DueTimes::default();
        due.add(Duration::from_secs(3_600), ms(0));
        assert!(!due.remove_reached(Duration::from_secs(3_600) + ms(350)));
        assert!(due.remove_reached(Duration::from_secs(3_600) + ms(360)));
    }

    #[test]
    fn latest_due_times_beyond_the_limit_are_dropped() {
        let due = DueTimes::default();
        for second in (0..20_000).rev() {
            due.add(Duration::from_secs(second), ms(0));
        }
        assert_eq!(due.times().len(), TIMES_MAX);
        assert_eq!(due.times().first(), Some(&ms(0)));
    }

    #[test]
    fn time_beyond_every_clock_is_added_without_overflow() {
        let due = DueTimes::default();
        due.add(Duration::MAX, Duration::MAX);
        assert!(!due.remove_reached(Duration::from_secs(1 << 40)));
    }
}
