//! The strangers that events are sent to.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{ErrorClass, EventId, LeaseToken, Outcome, Timestamp, retry_after};

use crate::dice::Dice;
use crate::fault::Fault;

/// How a receiver behaves until chaos changes its mind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    Healthy,
    Slow,
    Failing,
    /// Well for ten seconds, failing for ten.
    Flapping,
    Hanging,
    Resetting,
    /// 429 or 503 with a `Retry-After`, as seconds or as a date.
    Pleading,
    Gone,
}

impl Manner {
    pub(crate) const ILL: [Self; 7] = [
        Self::Slow,
        Self::Failing,
        Self::Flapping,
        Self::Hanging,
        Self::Resetting,
        Self::Pleading,
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
            Self::Pleading => Some(Fault::PleadingReceiver),
            Self::Gone => Some(Fault::GoneReceiver),
        }
    }
}

/// What a receiver will answer, and when.
pub(crate) struct Answer {
    pub(crate) after: Duration,
    pub(crate) outcome: Outcome,
    pub(crate) fault: Option<Fault>,
    /// The sender had to look at its wall clock.
    pub(crate) read_a_date: bool,
}

/// Longer than any timeout.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// `wall` is what the sending worker believes the time to be: it reads a date in `Retry-After` by that.
pub(crate) fn answer(manner: Manner, elapsed: Duration, wall: Timestamp, dice: &Dice) -> Answer {
    let promptly = dice.millis(1..200);
    let mut read_a_date = false;
    let well = || Outcome::response(200, None, b"thanks");
    let (after, outcome) = match manner {
        Manner::Healthy => (promptly, well()),
        Manner::Slow => (dice.millis(3_000..40_000), well()),
        Manner::Flapping if elapsed.as_secs() % 20 < 10 => (promptly, well()),
        Manner::Failing | Manner::Flapping => {
            (promptly, Outcome::response(dice.pick(&[500, 502, 404, 302, 503]), None, b"no"))
        }
        Manner::Hanging => (FOR_EVER, Outcome::no_response(ErrorClass::Timeout, "never")),
        Manner::Resetting => (promptly, Outcome::no_response(ErrorClass::Reset, "connection reset")),
        Manner::Pleading => {
            const DATE: &str = "Fri, 15 Jan 2027 08:30:00 GMT";
            let wish = dice.pick(&["5", "90", "100000", DATE, DATE, DATE, "soon"]);
            read_a_date = wish == DATE;
            (promptly, Outcome::response(dice.pick(&[429, 503]), retry_after(wish, wall), b"later"))
        }
        Manner::Gone => (promptly, Outcome::response(dice.pick(&[410, 200, 500]), None, b"gone")),
    };
    Answer { after, outcome, fault: manner.fault(), read_a_date }
}

/// What receivers saw: the only witness of what was on the wire.
#[derive(Debug, Default)]
pub(crate) struct Witness {
    requests: BTreeMap<LeaseToken, Option<u16>>,
    by_event: BTreeMap<EventId, u32>,
}

impl Witness {
    /// A request arrives; the number of requests under this token and for this event so far, this one included.
    pub(crate) fn arrives(&mut self, event_id: &EventId, token: LeaseToken) -> (bool, u32) {
        let first_under_token = self.requests.insert(token, None).is_none();
        let of_event = self.by_event.entry(event_id.clone()).or_default();
        *of_event += 1;
        (first_under_token, *of_event)
    }

    pub(crate) fn answers(&mut self, token: LeaseToken, status: Option<u16>) {
        self.requests.insert(token, status);
    }

    /// Whether a request came under this token at all.
    pub(crate) fn saw(&self, token: LeaseToken) -> bool {
        self.requests.contains_key(&token)
    }

    /// The status that was answered to the request under this token.
    pub(crate) fn answered(&self, token: LeaseToken) -> Option<u16> {
        self.requests.get(&token).copied().flatten()
    }

    pub(crate) fn requests_of(&self, event_id: &EventId) -> u32 {
        self.by_event.get(event_id).copied().unwrap_or_default()
    }

    pub(crate) fn total(&self) -> u64 {
        self.by_event.values().copied().map(u64::from).sum()
    }
}
