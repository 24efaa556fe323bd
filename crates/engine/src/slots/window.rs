//! A window: how many requests may be in flight to one receiver, learned from its answers.
//!
//! It starts small, because an unproven receiver must not hold much. Every answer that arrives while the window is full adds
//! one, so the window doubles with every round trip. A request without an answer halves it. A receiver that comes back
//! after an outage is thereby ramped up.

use posthaste_domain::{Outcome, OutcomeBucket, ReceiverHealth};

/// What a request has shown about the receiver's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    /// The receiver accepted the request.
    Good,
    /// The receiver refused the request, and is well.
    Refused,
    /// The receiver answered with an error of its own.
    Failing,
    /// The receiver asked for fewer requests.
    Overloaded,
    /// The receiver did not answer, or could not be reached.
    Missing,
    /// The request shows nothing about the receiver.
    Unknown,
}

impl Answer {
    pub(crate) fn from_outcome(outcome: &Outcome) -> Self {
        match (outcome.health(), outcome.http_status()) {
            (ReceiverHealth::Healthy, _) if outcome.bucket() == OutcomeBucket::Http2xx => Self::Good,
            (ReceiverHealth::Healthy, _) => Self::Refused,
            (_, Some(429 | 503)) => Self::Overloaded,
            (ReceiverHealth::Unhealthy, Some(_)) => Self::Failing,
            (ReceiverHealth::Unhealthy, None) => Self::Missing,
            (ReceiverHealth::Unknown, _) => Self::Unknown,
        }
    }
}

/// The window of a destination or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Window {
    size: usize,
    max: usize,
}

impl Window {
    pub(super) fn new(start: usize, max: usize) -> Self {
        Self { size: start.clamp(1, max.max(1)), max: max.max(1) }
    }

    pub(super) fn size(self) -> usize {
        self.size
    }

    /// Learns from a request. `was_full` says whether the window limited the requests.
    pub(super) fn record(&mut self, answer: Answer, was_full: bool) {
        match answer {
            Answer::Good | Answer::Refused if was_full => self.size = (self.size + 1).min(self.max),
            Answer::Overloaded | Answer::Missing => self.size = (self.size / 2).max(1),
            Answer::Good | Answer::Refused | Answer::Failing | Answer::Unknown => {}
        }
    }

    /// Starts again with one request, after a circuit has opened.
    pub(super) fn restart(&mut self) {
        self.size = 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_doubles_with_every_round_of_answers_up_to_its_maximum() {
        let mut window = Window::new(2, 20);
        let sizes = [(); 5].map(|()| {
            for _ in 0..window.size() {
                window.record(Answer::Good, true);
            }
            window.size()
        });
        assert_eq!(sizes, [4, 8, 16, 20, 20]);
    }

    #[test]
    fn window_that_is_not_full_does_not_grow() {
        let mut window = Window::new(2, 20);
        window.record(Answer::Good, false);
        assert_eq!(window.size(), 2);
    }

    #[test]
    fn missing_answers_halve_the_window_down_to_one() {
        let mut window = Window::new(20, 20);
        let sizes = [
            Answer::Missing,
            Answer::Overloaded,
            Answer::Failing,
            Answer::Unknown,
            Answer::Missing,
            Answer::Missing,
        ]
        .map(|answer| {
            window.record(answer, true);
            window.size()
        });
        assert_eq!(sizes, [10, 5, 5, 5, 2, 1]);
        window.record(Answer::Missing, true);
        assert_eq!(window.size(), 1);
    }

    #[test]
    fn outcomes_are_judged_by_status_and_health() {
        let status = |status| Answer::from_outcome(&Outcome::response(status, None, b""));
        assert_eq!(
            [200, 404, 500, 503, 429].map(status),
            [Answer::Good, Answer::Refused, Answer::Failing, Answer::Overloaded, Answer::Overloaded]
        );
        let missing = |class| Answer::from_outcome(&Outcome::no_response(class, ""));
        use posthaste_domain::ErrorClass::{Panic, Timeout};
        assert_eq!((missing(Timeout), missing(Panic)), (Answer::Missing, Answer::Unknown));
    }
}
