//! Destinations whose profiles could not be resolved: when they are tried again, and what is logged about them.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::DestinationId;

/// Pause after the first failure. Each further pause is twice as long.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);
/// Least time between two log lines.
const LOG_INTERVAL: Duration = Duration::from_secs(60);
/// Maximum number of destinations that are remembered. Beyond it, those whose next trial is due are forgotten.
const DESTINATIONS_MAX: usize = 100_000;

/// The destinations whose profiles could not be read or opened the last time.
#[derive(Debug, Default)]
pub(super) struct UnresolvedDestinations {
    destinations: BTreeMap<DestinationId, Failure>,
    /// Events that were not sent since the last log line.
    unsent: u64,
    logged_at: Option<Duration>,
}

#[derive(Debug)]
struct Failure {
    reason: String,
    pause: Duration,
    retry_at: Duration,
}

impl UnresolvedDestinations {
    /// Records a failure. Nothing is claimed for the destination until its next trial.
    pub(super) fn record(&mut self, id: DestinationId, reason: String, now: Duration) {
        if self.destinations.len() >= DESTINATIONS_MAX {
            self.destinations.retain(|_, failure| now < failure.retry_at);
        }
        let previous = self.destinations.get(&id).map(|failure| failure.pause);
        let pause = previous.map_or(PAUSE_MIN, |pause| (pause * 2).min(PAUSE_MAX));
        self.destinations.insert(id, Failure { reason, pause, retry_at: now + pause });
    }

    /// Forgets the failures of a destination whose profile has been opened.
    pub(super) fn remove(&mut self, id: DestinationId) {
        self.destinations.remove(&id);
    }

    /// Returns how many events may be claimed for a destination: none during its pause, and one to try it again.
    pub(super) fn send_limit(&self, id: DestinationId, now: Duration) -> Option<usize> {
        let failure = self.destinations.get(&id)?;
        Some(usize::from(now >= failure.retry_at))
    }

    /// Counts an event that was not sent. Returns the number of events to log and the reason, if a log line is due.
    pub(super) fn record_unsent(&mut self, id: DestinationId, now: Duration) -> Option<(u64, String)> {
        self.unsent += 1;
        if self.logged_at.is_some_and(|logged_at| now < logged_at + LOG_INTERVAL) {
            return None;
        }
        self.logged_at = Some(now);
        let reason = self.destinations.get(&id).map(|failure| failure.reason.clone()).unwrap_or_default();
        Some((std::mem::take(&mut self.unsent), reason))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: DestinationId = DestinationId(1);

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn pauses_grow_up_to_a_minute_and_each_is_followed_by_a_single_trial() {
        let mut unresolved = UnresolvedDestinations::default();
        let mut now = secs(0);
        assert_eq!(unresolved.send_limit(HERE, now), None);
        for pause in [1, 2, 4, 8, 16, 32, 60, 60] {
            unresolved.record(HERE, String::new(), now);
            assert_eq!(unresolved.send_limit(HERE, now + secs(pause) - Duration::from_millis(1)), Some(0));
            now += secs(pause);
            assert_eq!(unresolved.send_limit(HERE, now), Some(1));
        }
        unresolved.remove(HERE);
        assert_eq!(unresolved.send_limit(HERE, now), None);
    }

    #[test]
    fn a_lasting_failure_is_logged_once_a_minute_with_its_count() {
        let mut unresolved = UnresolvedDestinations::default();
        unresolved.record(HERE, "no key".to_owned(), secs(0));
        let logged: Vec<_> =
            (0..180).filter_map(|second| unresolved.record_unsent(HERE, secs(second))).collect();
        let line = |events| (events, "no key".to_owned());
        assert_eq!(logged, [line(1), line(60), line(60)]);
    }
}
