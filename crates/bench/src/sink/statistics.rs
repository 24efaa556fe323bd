//! What the sink counts.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{BuildHasher as _, RandomState};

use serde::{Deserialize, Serialize};

use crate::payload;
use crate::sink::request::RequestHead;

/// Counts of a sink since the last reset.
#[derive(Default)]
pub(crate) struct Statistics {
    pub(crate) connections: u64,
    groups: BTreeMap<String, Group>,
    hasher: RandomState,
}

/// Counts of one group of destinations.
#[derive(Default)]
struct Group {
    requests: u64,
    /// Hashes of the ids of all events that arrived.
    events: HashSet<u64>,
    /// Requests per hash of host and path.
    destinations: HashMap<u64, u32>,
    first_micros: u64,
    last_micros: u64,
    lags_micros: Vec<u64>,
}

/// A report of the sink.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SinkReport {
    /// Connections accepted.
    pub(crate) connections: u64,
    pub(crate) groups: BTreeMap<String, GroupReport>,
}

/// The report of one group of destinations.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub(crate) struct GroupReport {
    pub(crate) requests: u64,
    /// Distinct events.
    pub(crate) events: u64,
    /// Distinct destinations.
    pub(crate) destinations: u64,
    /// Arrival of the first and of the last request, in microseconds since the Unix epoch.
    pub(crate) first_micros: u64,
    pub(crate) last_micros: u64,
    /// Time from the timestamp in the payload to the arrival, for requests with a timestamp.
    pub(crate) lags_micros: Vec<u64>,
}

impl Statistics {
    /// Counts a request that arrived.
    pub(crate) fn record(&mut self, head: &RequestHead<'_>, body: &[u8], now_micros: u64) {
        let event = self.hasher.hash_one(head.event_id);
        let destination = self.hasher.hash_one((head.host, head.path));
        if !self.groups.contains_key(head.group) {
            self.groups.insert(head.group.to_owned(), Group::default());
        }
        let group = self.groups.get_mut(head.group).expect("the group was inserted");
        if group.requests == 0 {
            group.first_micros = now_micros;
        }
        group.requests += 1;
        group.last_micros = now_micros;
        group.events.insert(event);
        *group.destinations.entry(destination).or_default() += 1;
        if let Some(sent_micros) = payload::timestamp(body) {
            group.lags_micros.push(now_micros.saturating_sub(sent_micros));
        }
    }

    /// Returns the number of distinct events of a group.
    pub(crate) fn events(&self, group: &str) -> usize {
        self.groups.get(group).map_or(0, |group| group.events.len())
    }

    pub(crate) fn report(&self) -> SinkReport {
        let report = |group: &Group| GroupReport {
            requests: group.requests,
            events: group.events.len() as u64,
            destinations: group.destinations.len() as u64,
            first_micros: group.first_micros,
            last_micros: group.last_micros,
            lags_micros: group.lags_micros.clone(),
        };
        let groups = self.groups.iter().map(|(name, group)| (name.clone(), report(group))).collect();
        SinkReport { connections: self.connections, groups }
    }

    pub(crate) fn reset(&mut self) {
        self.connections = 0;
        self.groups.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::request::parse_head;

    fn record(statistics: &mut Statistics, path: &str, event: &str, body: &[u8], now: u64) {
        let head = format!("POST {path} HTTP/1.1\r\nhost: a\r\nwebhook-id: {event}\r\n\r\n");
        let head = parse_head(head.as_bytes()).unwrap().unwrap();
        statistics.record(&head, body, now);
    }

    #[test]
    fn duplicates_and_destinations_are_counted_per_group() {
        let mut statistics = Statistics::default();
        record(&mut statistics, "/g/accept/1", "e1", b"{}", 5);
        record(&mut statistics, "/g/accept/1", "e1", b"{}", 6);
        record(&mut statistics, "/g/accept/2", "e2", b"{\"at\":4,\"pad\":\"\"}", 9);
        record(&mut statistics, "/h/accept/2", "e3", b"{}", 10);
        let report = statistics.report();
        let group = &report.groups["g"];
        assert_eq!((group.requests, group.events, group.destinations), (3, 2, 2));
        assert_eq!((group.first_micros, group.last_micros), (5, 9));
        assert_eq!(group.lags_micros, [5]);
        assert_eq!(statistics.events("h"), 1);
        statistics.reset();
        assert_eq!(statistics.events("g"), 0);
    }
}
