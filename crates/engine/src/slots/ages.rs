//! The ages of the requests in flight, in intervals.
//!
//! A host that has always answered at once may stop answering, with many requests in flight. So a request that has been in
//! flight for long counts like one to a slow host, whatever the pace of its host was when its event was claimed.

use std::collections::BTreeMap;

use posthaste_store::Pace;

use super::hosts::HostNumber;

/// The number of whole intervals after which a request is old.
pub(crate) const INTERVALS_UNTIL_OLD: u32 = 4;

/// Returns whether something that happened at any time of an interval is at least [`INTERVALS_UNTIL_OLD`] ago now.
pub(super) fn is_long_ago(then: u64, now: u64) -> bool {
    then + u64::from(INTERVALS_UNTIL_OLD) < now
}

/// The number of a request of this worker. A later request has a higher one.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RequestNumber(u64);

/// A request in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) host: HostNumber,
    /// The pace of the host when the event was claimed.
    pub(super) pace: Pace,
    started_in: u64,
}

/// The requests in flight, in the order of their starts.
#[derive(Debug, Default)]
pub(super) struct RequestAges {
    interval: u64,
    next: RequestNumber,
    /// All requests before this one are old.
    first_young: RequestNumber,
    requests: BTreeMap<RequestNumber, Request>,
    old: usize,
}

impl RequestAges {
    /// Returns the number of the current interval.
    pub(super) fn interval(&self) -> u64 {
        self.interval
    }

    pub(super) fn start(&mut self, host: HostNumber, pace: Pace) -> RequestNumber {
        let number = self.next;
        self.next.0 += 1;
        self.requests.insert(number, Request { host, pace, started_in: self.interval });
        number
    }

    pub(super) fn end(&mut self, number: RequestNumber) {
        self.requests.remove(&number);
        self.old -= usize::from(self.is_old(number));
    }

    pub(super) fn is_old(&self, number: RequestNumber) -> bool {
        number < self.first_young
    }

    /// Returns the number of old requests in flight.
    pub(super) fn old(&self) -> usize {
        self.old
    }

    /// Begins the next interval, and returns the requests that are old from now on.
    pub(super) fn begin_interval(&mut self) -> Vec<Request> {
        self.interval += 1;
        let young = self.requests.range(self.first_young..);
        let is_old = |request: &Request| is_long_ago(request.started_in, self.interval);
        let aged: Vec<(RequestNumber, Request)> = young
            .map(|(number, request)| (*number, *request))
            .take_while(|(_, request)| is_old(request))
            .collect();
        if let Some((last, _)) = aged.last() {
            self.first_young = RequestNumber(last.0 + 1);
        }
        self.old += aged.len();
        aged.into_iter().map(|(_, request)| request).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::hosts::Hosts;
    use super::*;

    #[test]
    fn a_request_is_old_after_four_whole_intervals_until_it_ends() {
        let mut ages = RequestAges::default();
        let first = ages.start(Hosts::any(), Pace::Prompt);
        for _ in 0..4 {
            assert_eq!(ages.begin_interval(), []);
        }
        let second = ages.start(Hosts::any(), Pace::Prompt);
        assert_eq!(ages.begin_interval().len(), 1);
        assert_eq!((ages.is_old(first), ages.is_old(second), ages.old()), (true, false, 1));
        assert_eq!(ages.begin_interval(), [], "it is reported once");
        ages.end(first);
        ages.end(second);
        assert_eq!((ages.old(), ages.requests.len()), (0, 0));
    }

    proptest! {
        #[test]
        fn old_requests_are_those_that_started_long_ago(steps in prop::collection::vec((0..4_u8, 0..64_usize), 1..300)) {
            let mut ages = RequestAges::default();
            let mut in_flight = Vec::new();
            for (kind, index) in steps {
                match kind {
                    0 | 1 => in_flight.push((ages.start(Hosts::any(), Pace::Prompt), ages.interval())),
                    2 if !in_flight.is_empty() => ages.end(in_flight.swap_remove(index % in_flight.len()).0),
                    _ => drop(ages.begin_interval()),
                }
                let is_old = |started_in: u64| started_in + 5 <= ages.interval();
                for (number, started_in) in &in_flight {
                    prop_assert_eq!(ages.is_old(*number), is_old(*started_in));
                }
                let old = in_flight.iter().filter(|(_, started_in)| is_old(*started_in)).count();
                prop_assert_eq!(ages.old(), old);
            }
        }
    }
}
