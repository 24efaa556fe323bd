//! Simulated receivers, and the log of the requests that they got.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{ErrorClass, EventKey, LeaseToken, Outcome, Timestamp, parse_retry_after};

use crate::fault::Fault;
use crate::random::SeededRandom;

/// How a receiver responds until `chaos` changes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReceiverBehavior {
    Healthy,
    Slow,
    Failing,
    /// Healthy for ten seconds, then failing for ten.
    Flapping,
    Hanging,
    Resetting,
    /// 429 or 503 with a `Retry-After`, as seconds or as a date.
    RateLimiting,
    Gone,
}

impl ReceiverBehavior {
    pub(crate) const FAULTY: [Self; 7] = [
        Self::Slow,
        Self::Failing,
        Self::Flapping,
        Self::Hanging,
        Self::Resetting,
        Self::RateLimiting,
        Self::Gone,
    ];

    const fn fault(self) -> Option<Fault> {
        match self {
            Self::Healthy => None,
            Self::Slow => Some(Fault::SlowReceiver),
            Self::Failing => Some(Fault::FailingReceiver),
            Self::Flapping => Some(Fault::FlappingReceiver),
            Self::Hanging => Some(Fault::HangingReceiver),
            Self::Resetting => Some(Fault::ResettingReceiver),
            Self::RateLimiting => Some(Fault::RateLimitingReceiver),
            Self::Gone => Some(Fault::GoneReceiver),
        }
    }
}

/// The response that a receiver will give, and when.
pub(crate) struct PlannedResponse {
    pub(crate) after: Duration,
    pub(crate) outcome: Outcome,
    pub(crate) fault: Option<Fault>,
}

/// Longer than any timeout.
const FOREVER: Duration = Duration::from_secs(1_000_000);

/// Computes the response to a request. `now` is the time that the engine passed to the sender, by which the sender reads a
/// date in `Retry-After`.
pub(crate) fn plan_response(
    behavior: ReceiverBehavior,
    elapsed: Duration,
    now: Timestamp,
    answers_within: Duration,
    random: &SeededRandom,
) -> PlannedResponse {
    let soon = random.millis(1..u64::try_from(answers_within.as_millis()).unwrap_or(u64::MAX));
    let success = || Outcome::response(200, None, b"thanks");
    let (after, outcome) = match behavior {
        ReceiverBehavior::Healthy => (soon, success()),
        ReceiverBehavior::Slow => (random.millis(3_000..40_000), success()),
        ReceiverBehavior::Flapping if elapsed.as_secs() % 20 < 10 => (soon, success()),
        ReceiverBehavior::Failing | ReceiverBehavior::Flapping => {
            (soon, Outcome::response(random.pick(&[500, 502, 404, 302, 503]), None, b"no"))
        }
        ReceiverBehavior::Hanging => (FOREVER, Outcome::no_response(ErrorClass::Timeout, "never")),
        ReceiverBehavior::Resetting => (soon, Outcome::no_response(ErrorClass::Reset, "connection reset")),
        ReceiverBehavior::RateLimiting => {
            const DATE: &str = "Fri, 15 Jan 2027 08:30:00 GMT";
            let retry_after_header = random.pick(&["5", "90", "100000", DATE, DATE, DATE, "soon"]);
            (
                soon,
                Outcome::response(
                    random.pick(&[429, 503]),
                    parse_retry_after(retry_after_header, now),
                    b"later",
                ),
            )
        }
        ReceiverBehavior::Gone => (soon, Outcome::response(random.pick(&[410, 200, 500]), None, b"gone")),
    };
    PlannedResponse { after, outcome, fault: behavior.fault() }
}

/// All requests that receivers got, by lease token and by event.
#[derive(Debug, Default)]
pub(crate) struct RequestLog {
    requests: BTreeMap<LeaseToken, Option<u16>>,
    by_event: BTreeMap<EventKey, u32>,
}

impl RequestLog {
    /// Records a request. Returns whether it is the first under its token, and the number of requests for its event
    /// so far.
    pub(crate) fn record_request(&mut self, event: EventKey, token: LeaseToken) -> (bool, u32) {
        let first_under_token = self.requests.insert(token, None).is_none();
        let of_event = self.by_event.entry(event).or_default();
        *of_event += 1;
        (first_under_token, *of_event)
    }

    pub(crate) fn record_response(&mut self, token: LeaseToken, status: Option<u16>) {
        self.requests.insert(token, status);
    }

    /// Returns whether a request was sent under this token.
    pub(crate) fn contains(&self, token: LeaseToken) -> bool {
        self.requests.contains_key(&token)
    }

    /// Returns the HTTP status of the response under this token.
    pub(crate) fn status_of(&self, token: LeaseToken) -> Option<u16> {
        self.requests.get(&token).copied().flatten()
    }

    pub(crate) fn requests_of(&self, event: EventKey) -> u32 {
        self.by_event.get(&event).copied().unwrap_or_default()
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_event.values().copied().map(u64::from).sum()
    }
}
