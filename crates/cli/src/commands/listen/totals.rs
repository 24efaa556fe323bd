//! Totals since the start, printed as a summary at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use posthaste_domain::Timestamp;

use super::delivery::{Delivery, SignatureCheck};
use crate::terminal::{pluralize, time};

/// Maximum number of distinct events that are counted. Beyond it, the summary counts deliveries but no further events.
const EVENTS_MAX: usize = 100_000;

/// Counts of deliveries, events and statuses.
pub(super) struct DeliveryTotals {
    started: Timestamp,
    last_delivery: Option<Timestamp>,
    deliveries: u64,
    events: BTreeSet<String>,
    not_verified: u64,
    /// Number of responses by status.
    statuses: BTreeMap<u16, u64>,
}

impl DeliveryTotals {
    pub(super) fn start(at: Timestamp) -> Self {
        Self {
            started: at,
            last_delivery: None,
            deliveries: 0,
            events: BTreeSet::new(),
            not_verified: 0,
            statuses: BTreeMap::new(),
        }
    }

    /// Adds a delivery. Returns the time since the previous delivery, None for the first.
    pub(super) fn add(&mut self, delivery: &Delivery) -> Option<Duration> {
        self.deliveries += 1;
        if let Some(event_id) = &delivery.event_id
            && self.events.len() < EVENTS_MAX
        {
            self.events.insert(event_id.clone());
        }
        self.not_verified += u64::from(matches!(delivery.check, SignatureCheck::NotVerified(_)));
        *self.statuses.entry(delivery.status.as_u16()).or_default() += 1;
        let last = self.last_delivery.replace(delivery.at);
        last.map(|last| delivery.at.since(last))
    }

    pub(super) fn summary(&self, now: Timestamp) -> String {
        let since = time::format_duration(now.since(self.started));
        if self.deliveries == 0 {
            return format!("Nothing was delivered in {since}.");
        }
        let statuses: Vec<_> =
            self.statuses.iter().map(|(status, count)| format!("{status}: {count}")).collect();
        let not_verified = match self.not_verified {
            0 => String::new(),
            count => format!("; {count} NOT verified"),
        };
        let events = pluralize(self.events.len() as u64, "event");
        let requests = pluralize(self.deliveries, "request");
        format!("{requests} for {events} in {since}; responded {}{not_verified}.", statuses.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;

    use super::*;

    fn delivery(at: i64, id: &str, check: SignatureCheck, status: u16) -> Delivery {
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
    fn the_summary_counts_deliveries_events_and_statuses() {
        let mut totals = DeliveryTotals::start(Timestamp::from_secs(100));
        assert_eq!(totals.summary(Timestamp::from_secs(142)), "Nothing was delivered in 42 s.");
        assert_eq!(totals.add(&delivery(110, "a", SignatureCheck::Verified, 500)), None);
        assert_eq!(
            totals.add(&delivery(113, "a", SignatureCheck::Verified, 200)),
            Some(Duration::from_secs(3))
        );
        totals.add(&delivery(120, "b", SignatureCheck::NotVerified("no".into()), 401));
        let expected = "3 requests for 2 events in 42 s; responded 200: 1, 401: 1, 500: 1; 1 NOT verified.";
        assert_eq!(totals.summary(Timestamp::from_secs(142)), expected);
    }
}
