//! The pace of a host: how fast it has answered lately.

use std::time::Duration;

use posthaste_store::Pace;

use super::window::Answer;

/// A host that answers faster than this on average is prompt.
const PROMPT_BELOW: Duration = Duration::from_millis(100);
/// A host that answers faster than this on average is steady.
const STEADY_BELOW: Duration = Duration::from_secs(1);

/// How long the claimed events of a host that answers at once should last: a few claims under load.
const CLAIMED_FOR: Duration = Duration::from_millis(100);

/// Learns the pace of a host from its answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PaceTracker {
    /// This worker has had no answer yet. The store may know that the host's destinations fail.
    New { is_failing: bool },
    /// The time to an answer, smoothed over the last ones.
    Answers(Duration),
    /// It answered in this time on average, and then stopped answering.
    Stalled(Duration),
    /// The last request got no answer.
    Silent,
}

impl PaceTracker {
    pub(super) fn pace(self) -> Pace {
        match self {
            Self::New { is_failing: false } => Pace::Slow,
            Self::New { is_failing: true } | Self::Silent => Pace::Silent,
            Self::Answers(time) if time < PROMPT_BELOW => Pace::Prompt,
            Self::Answers(time) if time < STEADY_BELOW => Pace::Steady,
            Self::Answers(_) | Self::Stalled(_) => Pace::Slow,
        }
    }

    /// Returns how many events may be claimed for each place in a window. A host that answers soon gets more than one, so
    /// that a claim fills places before they are free: as many as it answers in [`CLAIMED_FOR`].
    pub(super) fn claims_per_place(self) -> usize {
        match (self, self.pace()) {
            (Self::Answers(time), Pace::Prompt) => {
                let answers = CLAIMED_FOR.as_micros() / time.as_micros().max(1);
                usize::try_from(answers).unwrap_or(usize::MAX).clamp(4, 16)
            }
            (_, Pace::Steady) => 2,
            _ => 1,
        }
    }

    pub(super) fn record(&mut self, answer: Answer, took: Duration) {
        *self = match (answer, *self) {
            (Answer::Unknown, unchanged) => unchanged,
            (Answer::Missing, _) => Self::Silent,
            (_, Self::Answers(before) | Self::Stalled(before)) => Self::Answers((before * 3 + took) / 4),
            (_, Self::New { .. } | Self::Silent) => Self::Answers(took),
        };
    }

    /// Records that a request has been in flight for long, and that the host has answered none since.
    pub(super) fn record_stall(&mut self) {
        if let Self::Answers(time) = *self {
            *self = Self::Stalled(time);
        }
    }

    pub(super) fn is_stalled(self) -> bool {
        matches!(self, Self::Stalled(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(answers: &[(Answer, u64)]) -> Pace {
        let mut tracker = PaceTracker::New { is_failing: false };
        for (answer, millis) in answers {
            tracker.record(*answer, Duration::from_millis(*millis));
        }
        tracker.pace()
    }

    #[test]
    fn pace_follows_the_smoothed_time_to_an_answer() {
        assert_eq!(after(&[]), Pace::Slow);
        assert_eq!(after(&[(Answer::Good, 5)]), Pace::Prompt);
        assert_eq!(after(&[(Answer::Good, 5), (Answer::Failing, 500)]), Pace::Steady);
        assert_eq!(after(&[(Answer::Good, 3_000)]), Pace::Slow);
        assert_eq!(after(&[(Answer::Good, 5), (Answer::Missing, 30_000)]), Pace::Silent);
        assert_eq!(after(&[(Answer::Missing, 30_000), (Answer::Good, 5)]), Pace::Prompt);
        assert_eq!(after(&[(Answer::Good, 5), (Answer::Unknown, 30_000)]), Pace::Prompt);
    }

    #[test]
    fn a_host_that_stops_answering_is_slow_until_it_answers_again() {
        let mut tracker = PaceTracker::New { is_failing: false };
        tracker.record_stall();
        assert!(!tracker.is_stalled(), "it has never answered");
        tracker.record(Answer::Good, Duration::from_millis(5));
        tracker.record_stall();
        assert_eq!((tracker.is_stalled(), tracker.pace(), tracker.claims_per_place()), (true, Pace::Slow, 1));
        tracker.record(Answer::Good, Duration::from_millis(5));
        assert_eq!((tracker.is_stalled(), tracker.pace()), (false, Pace::Prompt));
    }

    #[test]
    fn a_host_that_answers_sooner_gets_more_events_ahead() {
        let ahead = [1, 12, 50, 500, 5_000].map(|millis| {
            let mut tracker = PaceTracker::New { is_failing: false };
            tracker.record(Answer::Good, Duration::from_millis(millis));
            tracker.claims_per_place()
        });
        assert_eq!(ahead, [16, 8, 4, 2, 1]);
    }

    #[test]
    fn host_of_a_failing_destination_starts_as_silent() {
        assert_eq!(PaceTracker::New { is_failing: true }.pace(), Pace::Silent);
    }
}
