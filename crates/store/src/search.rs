//! Searches for events: what an operator looks for, and how many rows one page examines.

use std::time::Duration;

use posthaste_domain::{
    ApplicationId, DeliveryStatus, DestinationUrl, EndpointId, EventId, EventKey, FailureKind, Timestamp,
};

use crate::{BulkCandidate, BulkFilter, ErrorFilter};

/// The most rows that one page of a search examines, by default 10,000.
///
/// A store finds some conditions through an index, such as a reference of the producer. For the others it examines rows. A
/// page that has examined so many rows ends, short or empty, and its [`next`](crate::Page::next) is the last row that it has examined. So the
/// cost of a page grows neither with the backlog nor with the history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExamineLimit(usize);

impl ExamineLimit {
    /// A limit of at least one row.
    pub fn new(rows_max: usize) -> Self {
        Self(rows_max.max(1))
    }

    pub const fn get(self) -> usize {
        self.0
    }
}

impl Default for ExamineLimit {
    fn default() -> Self {
        Self(10_000)
    }
}

/// Which events to list: those that meet every condition. `None` matches every event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventQuery {
    pub event_id: Option<EventId>,
    pub status: Option<DeliveryStatus>,
    /// Only pending events with at least one attempt.
    pub retrying: bool,
    /// Events that were enqueued to this URL. Events of endpoints with the same URL are not among them.
    pub destination: Option<DestinationUrl>,
    /// Events of this endpoint.
    pub endpoint: Option<EndpointId>,
    pub app: Option<ApplicationId>,
    pub event_type: Option<String>,
    /// Failed events of this kind.
    pub failure_kind: Option<FailureKind>,
    /// Pending and failed events whose last attempt ended with this error.
    pub error: Option<ErrorFilter>,
    pub payment_request_id: Option<String>,
    pub session_id: Option<String>,
    /// Events that were enqueued to a URL with this reference. The events of an endpoint have its id instead: see `endpoint`.
    pub webhook_id: Option<String>,
    /// The event was created at this time or later.
    pub since: Option<Timestamp>,
    /// The event was created at this time or earlier.
    pub until: Option<Timestamp>,
    pub examine: ExamineLimit,
}

impl EventQuery {
    /// The state that every event of the list has, if the conditions admit only one.
    pub fn implied_status(&self) -> Option<DeliveryStatus> {
        // Only pending events are retried, and only failed events have a kind.
        let retrying = self.retrying.then_some(DeliveryStatus::Pending);
        self.status.or(retrying).or(self.failure_kind.map(|_| DeliveryStatus::Failed))
    }
}

/// Which dead letters to list: those that a bulk operation with the same filter selects.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DeadLetterQuery {
    pub filter: BulkFilter,
    /// Whether a filter without a kind also selects cancelled events.
    pub with_cancelled: bool,
    pub examine: ExamineLimit,
}

impl DeadLetterQuery {
    /// All dead letters, cancelled ones too.
    pub fn all() -> Self {
        Self { with_cancelled: true, ..Self::default() }
    }

    /// Returns whether the list contains a dead letter.
    pub fn matches(&self, candidate: &BulkCandidate<'_>) -> bool {
        match self.filter.failure_kind {
            None if self.with_cancelled => self.filter.matches_apart_from_kind(candidate),
            _ => self.filter.matches(candidate),
        }
    }
}

/// A binary search for the first event that was created after a time.
///
/// Keys grow with the time of creation, but a transaction may take a while from its time to its keys. So the search allows for
/// a second, and an event that took longer may be on the wrong side of the key that is found.
#[derive(Debug, Clone, Copy)]
pub struct KeySearch {
    low: i64,
    high: i64,
    at: Timestamp,
}

impl KeySearch {
    /// How long a transaction may take from its time to the keys of its events.
    const SLACK: Duration = Duration::from_secs(1);

    /// Searches the keys up to the newest one for the end of the events that were created until a time.
    pub fn end_of(until: Timestamp, newest: EventKey) -> Self {
        Self { low: 0, high: newest.0.saturating_add(1), at: until.after(Self::SLACK) }
    }

    /// Searches the keys up to the newest one for the first event that was created at a time or later.
    pub fn start_of(since: Timestamp, newest: EventKey) -> Self {
        Self { low: 0, high: newest.0.saturating_add(1), at: since.before(Self::SLACK) }
    }

    /// Returns the key to look up next: the caller reads the first event from this key on. `None` once the search has ended.
    pub fn probe(&self) -> Option<EventKey> {
        (self.low < self.high).then(|| EventKey(self.low + (self.high - self.low) / 2))
    }

    /// Continues with the first event from [`probe`](Self::probe) on, if there is one.
    pub fn narrow(&mut self, found: Option<(EventKey, Timestamp)>) {
        let Some(EventKey(probe)) = self.probe() else { return };
        match found {
            Some((EventKey(key), created_at)) if key < self.high && created_at <= self.at => {
                self.low = key + 1;
            }
            _ => self.high = probe,
        }
    }

    /// The result: events with a lower key were created before, those from this key on after the time.
    pub fn bound(&self) -> EventKey {
        EventKey(self.low)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches events with these keys, each created as many seconds after the epoch as its key says.
    fn search(keys: &[i64], at: u32, of: fn(Timestamp, EventKey) -> KeySearch) -> (i64, usize) {
        let time = |seconds: i64| Timestamp::from_micros(seconds * 1_000_000);
        let mut search = of(time(at.into()), EventKey(keys.last().copied().unwrap_or(0)));
        let mut probes = 0;
        while let Some(EventKey(probe)) = search.probe() {
            let found = keys.iter().find(|key| **key >= probe);
            search.narrow(found.map(|key| (EventKey(*key), time(*key))));
            probes += 1;
        }
        (search.bound().0, probes)
    }

    #[test]
    fn a_search_finds_the_range_of_a_time_in_few_probes() {
        let keys: Vec<i64> = (1..=1_000).map(|n| n * 7).collect();
        for at in [0, 6, 7, 8, 3_500, 3_503, 6_999, 7_000, 9_000] {
            let (end, probes) = search(&keys, at, KeySearch::end_of);
            for key in &keys {
                // A second of slack: an event of the next second is within the range.
                assert_eq!(*key < end, *key <= i64::from(at) + 1, "{key} until {at}");
            }
            assert!(probes <= 13, "{probes} probes");
            let (start, _) = search(&keys, at, KeySearch::start_of);
            for key in &keys {
                assert_eq!(*key >= start, *key > i64::from(at) - 1, "{key} since {at}");
            }
        }
        assert_eq!(search(&[], 5, KeySearch::end_of).0, 0);
    }
}
