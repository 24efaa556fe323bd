//! The recent answers of a destination: how many requests failed, and how long they took. Operators see both.

use std::time::Duration;

use super::window::Answer;

/// When this many requests are counted, the counts are halved: so they describe the last hundred or two.
const REQUESTS_MAX: u32 = 200;
/// The part of the mean duration that one request replaces.
const LATENCY_PART: u32 = 16;

/// Counts of recent requests to one destination, and their mean duration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct RecentAnswers {
    pub(super) requests: u32,
    pub(super) failures: u32,
    pub(super) latency: Duration,
}

impl RecentAnswers {
    /// Counts a request that has ended. A request that shows nothing about the receiver does not count.
    pub(super) fn record(&mut self, answer: Answer, took: Duration) {
        if answer == Answer::Unknown {
            return;
        }
        if self.requests >= REQUESTS_MAX {
            self.requests /= 2;
            self.failures /= 2;
        }
        self.requests += 1;
        self.failures += u32::from(answer != Answer::Good);
        let parts = self.requests.min(LATENCY_PART);
        self.latency = (self.latency * (parts - 1) + took) / parts;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answers: impl IntoIterator<Item = (Answer, u64)>) -> RecentAnswers {
        let mut recent = RecentAnswers::default();
        answers.into_iter().for_each(|(answer, millis)| recent.record(answer, Duration::from_millis(millis)));
        recent
    }

    #[test]
    fn everything_but_an_accepted_request_is_a_failure() {
        use Answer::{Failing, Good, Missing, Overloaded, Refused, Unknown};
        let recent = after([Good, Refused, Failing, Overloaded, Missing, Unknown].map(|answer| (answer, 20)));
        assert_eq!((recent.requests, recent.failures, recent.latency.as_millis()), (5, 4, 20));
    }

    #[test]
    fn old_requests_are_forgotten() {
        let failed = (0..10_000).map(|_| (Answer::Failing, 5));
        let recent = after(failed.chain((0..300).map(|_| (Answer::Good, 80))));
        assert!(recent.requests <= REQUESTS_MAX && recent.failures * 3 < recent.requests, "{recent:?}");
        assert!((75..=80).contains(&recent.latency.as_millis()), "{recent:?}");
    }
}
