//! What was received since the start, for the last line.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_domain::Timestamp;

use super::delivery::{Check, Delivery};
use crate::terminal::{counted, time};

/// Beyond so many, further events are not told apart.
const EVENTS_MAX: usize = 100_000;

pub(super) struct Tally {
    started: Timestamp,
    last: Option<Timestamp>,
    deliveries: u64,
    events: BTreeSet<String>,
    not_verified: u64,
    answers: BTreeMap<u16, u64>,
}

impl Tally {
    pub(super) fn started(at: Timestamp) -> Self {
        Self {
            started: at,
            last: None,
            deliveries: 0,
            events: BTreeSet::new(),
            not_verified: 0,
            answers: BTreeMap::new(),
        }
    }

    /// How long after the delivery before it this one came.
    pub(super) fn add(&mut self, delivery: &Delivery) -> Option<Duration> {
        self.deliveries += 1;
        if let Some(event_id) = &delivery.event_id
            && self.events.len() < EVENTS_MAX
        {
            self.events.insert(event_id.clone());
        }
        self.not_verified += u64::from(matches!(delivery.check, Check::NotVerified(_)));
        *self.answers.entry(delivery.status.as_u16()).or_default() += 1;
        let last = self.last.replace(delivery.at);
        last.map(|last| delivery.at.since(last))
    }

    pub(super) fn summary(&self, now: Timestamp) -> String {
        let since = time::in_words(now.since(self.started));
        if self.deliveries == 0 {
            return format!("Nothing was delivered in {since}.");
        }
        let answers: Vec<_> =
            self.answers.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        let forged = match self.not_verified {
            0 => String::new(),
            count => format!("; {count} NOT verified"),
        };
        let events = counted(self.events.len() as u64, "event");
        let requests = counted(self.deliveries, "request");
        format!("{requests} for {events} in {since}; answered {}{forged}.", answers.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;

    use super::*;

    fn delivery(at: i64, id: &str, check: Check, status: u16) -> Delivery {
        Delivery {
            at: Timestamp::from_secs(at),
            path: "/".into(),
            event_id: Some(id.into()),
            event_type: None,
            attempt: None,
            content_type: None,
            check,
            status: StatusCode::from_u16(status).unwrap(),
            body: Bytes::new(),
        }
    }

    #[test]
    fn the_summary_counts_deliveries_events_and_answers() {
        let mut tally = Tally::started(Timestamp::from_secs(100));
        assert_eq!(tally.summary(Timestamp::from_secs(142)), "Nothing was delivered in 42 s.");
        assert_eq!(tally.add(&delivery(110, "a", Check::Verified, 500)), None);
        assert_eq!(tally.add(&delivery(113, "a", Check::Verified, 200)), Some(Duration::from_secs(3)));
        tally.add(&delivery(120, "b", Check::NotVerified("no".into()), 401));
        let expected = "3 requests for 2 events in 42 s; answered 200: 1, 401: 1, 500: 1; 1 NOT verified.";
        assert_eq!(tally.summary(Timestamp::from_secs(142)), expected);
    }
}
