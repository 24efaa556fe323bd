//! The share of the places for requests that one host may use while several hosts compete for them.
//!
//! A host that takes many places in one moment and few in the next opens a connection for each request of its largest burst.
//! With equal shares, a host has about as many requests in flight now as a moment ago, and reuses its connections.

/// Requests that every host may have in flight, as far as places are free, however many hosts compete.
const SHARE_MIN: usize = 2;

/// Returns how many requests one of so many competing hosts may have in flight. A host alone may use four fifths of the
/// places, two hosts 45 % each; the shares of many hosts together are all places, rounded up for each host.
pub(super) fn fair_share(places: usize, hosts: usize) -> usize {
    (places * 4).div_ceil(hosts.max(1) * 4 + 1).max(SHARE_MIN)
}

/// Counts the hosts that compete for places: hosts that answer, and that have had an event waiting for a place lately.
///
/// A host counts for the current interval and the one before. So a host whose events have just been sent, and that gets
/// more with the next claim, still has its share.
#[derive(Debug, Default)]
pub(super) struct Competition {
    interval: u64,
    hosts: usize,
    hosts_before: usize,
}

/// The last interval in which a host competed for places.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct LastCompeted(Option<u64>);

impl Competition {
    /// Counts a host, once in each interval.
    pub(super) fn record(&mut self, host: &mut LastCompeted) {
        if host.0.replace(self.interval) != Some(self.interval) {
            self.hosts += 1;
        }
    }

    /// Forgets a host that has stopped answering, if it is counted for the current interval.
    pub(super) fn forget(&mut self, host: &mut LastCompeted) {
        if host.0.take_if(|interval| *interval == self.interval).is_some() {
            self.hosts -= 1;
        }
    }

    /// Returns the number of hosts that compete.
    pub(super) fn hosts(&self) -> usize {
        self.hosts.max(self.hosts_before)
    }

    /// Begins the next interval. The caller then counts the hosts with events that still wait.
    pub(super) fn begin_interval(&mut self) {
        self.interval += 1;
        self.hosts_before = std::mem::take(&mut self.hosts);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_host_alone_has_four_fifths_and_many_hosts_have_equal_shares() {
        let shares = [0, 1, 2, 20, 200, 1_000].map(|hosts| fair_share(512, hosts));
        assert_eq!(shares, [410, 410, 228, 26, 3, 2]);
    }

    #[test]
    fn a_host_competes_in_its_interval_and_the_next() {
        let mut competition = Competition::default();
        let (mut a, mut b) = (LastCompeted::default(), LastCompeted::default());
        competition.record(&mut a);
        competition.record(&mut b);
        competition.record(&mut a);
        assert_eq!(competition.hosts(), 2);
        competition.begin_interval();
        competition.record(&mut a);
        assert_eq!(competition.hosts(), 2, "the other one competed a moment ago");
        competition.record(&mut b);
        competition.forget(&mut b);
        competition.forget(&mut b);
        competition.begin_interval();
        assert_eq!(competition.hosts(), 1);
        competition.begin_interval();
        assert_eq!(competition.hosts(), 0);
    }

    proptest! {
        #[test]
        fn shares_shrink_smoothly_and_leave_no_place_unused(places in 1..10_000_usize, hosts in 1..5_000_usize) {
            let share = fair_share(places, hosts);
            prop_assert!(share >= SHARE_MIN && share >= fair_share(places, hosts + 1));
            prop_assert!(share * hosts >= places * 4 / 5, "together they may use the places");
            prop_assert!(share == SHARE_MIN || share * hosts <= places + hosts, "they exceed them by rounding only");
        }
    }
}
