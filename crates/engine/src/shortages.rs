//! Shortages of this host's own resources, such as open files: they cost no event an attempt, but they slow sending down.
//!
//! A shortage that concerns one receiver pauses its destination. Any other shortage halves the deliveries in flight and
//! pauses all claims. The limit doubles again for every few seconds without a shortage.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::DestinationId;

use crate::backoff::Backoff;
use crate::sender::LocalShortage;

/// Time without a shortage after which the limit of deliveries in flight doubles.
const DOUBLING_INTERVAL: Duration = Duration::from_secs(5);
/// Interval at which a claimer checks whether it is below a lowered limit.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// Shortest wait for the end of a pause. A timer may end a fraction of a millisecond early, and would then be set again
/// and again.
const WAIT_MIN: Duration = Duration::from_millis(1);
/// How long nothing is claimed for a destination whose receiver no local port is free for.
const DESTINATION_PAUSE: Duration = Duration::from_secs(1);
/// How long a shortage counts as current, and the least time between two log lines about it.
const CURRENT_FOR: Duration = Duration::from_secs(60);

/// The shortages that a worker has met.
#[derive(Default)]
pub(crate) struct Shortages {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    throttle: Option<Throttle>,
    /// Destinations for which nothing is claimed, with the end of the pause.
    paused: BTreeMap<DestinationId, Duration>,
    recent: BTreeMap<LocalShortage, RecentShortage>,
}

/// A kind of shortage that has occurred, and what has been logged about it.
struct RecentShortage {
    last_at: Duration,
    logged_at: Duration,
    /// Requests not sent since the last log line.
    unsent: u64,
}

/// A temporary limit of the deliveries in flight.
struct Throttle {
    in_flight_max: usize,
    /// Nothing is claimed until then.
    resume_at: Duration,
    pause: Backoff,
}

impl Throttle {
    /// Lowers the limit after a shortage that was met with this many deliveries in flight. A shortage during the pause
    /// is a consequence of the same claim and changes nothing.
    fn lower(previous: Option<Self>, in_flight: usize, now: Duration) -> Self {
        match previous {
            Some(throttle) if now < throttle.resume_at => throttle,
            previous => {
                let repeated = previous.filter(|throttle| now < throttle.resume_at + DOUBLING_INTERVAL);
                let mut pause = repeated.map_or_else(Backoff::new, |throttle| throttle.pause);
                Self { in_flight_max: (in_flight / 2).max(1), resume_at: now + pause.next(), pause }
            }
        }
    }

    /// Returns the limit at this time.
    fn in_flight_max(&self, now: Duration) -> usize {
        let doublings = now.saturating_sub(self.resume_at).as_secs() / DOUBLING_INTERVAL.as_secs();
        let factor = 1_usize.checked_shl(u32::try_from(doublings).unwrap_or(u32::MAX)).unwrap_or(usize::MAX);
        self.in_flight_max.saturating_mul(factor)
    }
}

impl Shortages {
    /// Records a request that was not sent. Returns the number of requests to log, if a log line is due.
    pub(crate) fn record(
        &self,
        shortage: LocalShortage,
        destination: DestinationId,
        in_flight: usize,
        now: Duration,
    ) -> Option<u64> {
        let mut state = self.state();
        if shortage.concerns_one_receiver() {
            state.paused.insert(destination, now + DESTINATION_PAUSE);
        } else {
            state.throttle = Some(Throttle::lower(state.throttle.take(), in_flight, now));
        }
        let is_first = !state.recent.contains_key(&shortage);
        let recent = state.recent.entry(shortage).or_insert(RecentShortage {
            last_at: now,
            logged_at: now,
            unsent: 0,
        });
        recent.last_at = now;
        recent.unsent += 1;
        let is_due = is_first || recent.logged_at + CURRENT_FOR <= now;
        is_due.then(|| {
            recent.logged_at = now;
            std::mem::take(&mut recent.unsent)
        })
    }

    /// Returns how many more deliveries a worker with `in_flight` deliveries may start, or how long it waits before it
    /// checks again.
    pub(crate) fn available(&self, in_flight: usize, now: Duration) -> Result<usize, Duration> {
        let state = self.state();
        let Some(throttle) = &state.throttle else { return Ok(usize::MAX) };
        if now < throttle.resume_at {
            return Err((throttle.resume_at - now).max(WAIT_MIN));
        }
        match throttle.in_flight_max(now).saturating_sub(in_flight) {
            0 => Err(CHECK_INTERVAL),
            available => Ok(available),
        }
    }

    /// Returns whether nothing may be claimed for a destination now.
    pub(crate) fn is_paused(&self, destination: DestinationId, now: Duration) -> bool {
        let mut state = self.state();
        state.paused.retain(|_, until| now < *until);
        state.paused.contains_key(&destination)
    }

    /// Returns the kind of the latest shortage, if it is recent.
    pub(crate) fn current(&self, now: Duration) -> Option<LocalShortage> {
        let state = self.state();
        let current = state.recent.iter().filter(|(_, recent)| now < recent.last_at + CURRENT_FOR);
        current.max_by_key(|(_, recent)| recent.last_at).map(|(shortage, _)| *shortage)
    }

    /// Ends the throttle, and forgets every shortage that is no longer recent. Returns the kinds that have just ended.
    pub(crate) fn take_ended(&self, now: Duration) -> Vec<LocalShortage> {
        let mut state = self.state();
        let is_over = |recent: &RecentShortage| recent.last_at + CURRENT_FOR <= now;
        let ended: Vec<_> =
            state.recent.iter().filter(|(_, recent)| is_over(recent)).map(|(kind, _)| *kind).collect();
        state.recent.retain(|_, recent| !is_over(recent));
        if state.recent.keys().all(|shortage| shortage.concerns_one_receiver()) {
            state.throttle = None;
        }
        ended
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: DestinationId = DestinationId(1);

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn each_shortage_halves_the_deliveries_in_flight_and_lengthens_the_pause() {
        let shortages = Shortages::default();
        let mut now = ms(0);
        for (in_flight, pause) in [(512, 100), (256, 200), (128, 400), (1, 800)] {
            shortages.record(LocalShortage::OpenFiles, HERE, in_flight, now);
            assert_eq!(shortages.available(0, now), Err(ms(pause)));
            now += ms(pause);
            assert_eq!(shortages.available(0, now), Ok((in_flight / 2).max(1)));
        }
    }

    #[test]
    fn shortages_of_one_burst_lower_the_limit_only_once() {
        let shortages = Shortages::default();
        for in_flight in (1..=512).rev() {
            shortages.record(LocalShortage::Memory, HERE, in_flight, ms(0));
        }
        assert_eq!(shortages.available(0, ms(100)), Ok(256));
        assert_eq!(shortages.available(200, ms(100)), Ok(56));
        assert_eq!(shortages.available(256, ms(100)), Err(CHECK_INTERVAL));
    }

    #[test]
    fn limit_doubles_while_there_is_no_shortage_and_ends_when_the_shortage_is_over() {
        let shortages = Shortages::default();
        shortages.record(LocalShortage::OpenFiles, HERE, 8, ms(0));
        for (seconds, in_flight_max) in [(0, 4), (5, 8), (10, 16), (30, 256)] {
            assert_eq!(shortages.available(0, ms(100 + seconds * 1_000)), Ok(in_flight_max));
        }
        assert_eq!(shortages.take_ended(ms(59_999)), []);
        assert_eq!(shortages.current(ms(59_999)), Some(LocalShortage::OpenFiles));
        assert_eq!(shortages.take_ended(ms(60_000)), [LocalShortage::OpenFiles]);
        assert_eq!(
            (shortages.available(0, ms(60_000)), shortages.current(ms(60_000))),
            (Ok(usize::MAX), None)
        );
    }

    #[test]
    fn lack_of_ports_pauses_one_destination_and_no_other() {
        let shortages = Shortages::default();
        shortages.record(LocalShortage::Ports, HERE, 512, ms(0));
        assert_eq!(shortages.available(512, ms(0)), Ok(usize::MAX));
        assert!(shortages.is_paused(HERE, ms(999)));
        assert!(!shortages.is_paused(HERE, ms(1_000)));
    }

    #[test]
    fn a_lasting_shortage_is_logged_once_a_minute_with_its_count() {
        let shortages = Shortages::default();
        let logged: Vec<u64> = (0..180)
            .filter_map(|second| shortages.record(LocalShortage::HostFiles, HERE, 1, ms(second * 1_000)))
            .collect();
        assert_eq!(logged, [1, 60, 60]);
    }
}
