//! What the end of an interval shows: hosts that have stopped answering, and hosts that compete for places.

use std::collections::BTreeSet;

use posthaste_domain::DestinationId;
use posthaste_store::Pace;

use super::super::ages::Request;
use super::{Started, Table};

/// What follows from the end of an interval.
pub(in crate::slots) struct AfterInterval<Q> {
    /// Deliveries that may be sent now.
    pub(in crate::slots) started: Vec<Started<Q>>,
    /// Deliveries that wait for hosts which have stopped answering. They use no slot any more.
    pub(in crate::slots) unsent: Vec<Q>,
    /// Whether a claim may find more to send now.
    pub(in crate::slots) may_claim: bool,
}

impl<Q> Table<Q> {
    /// Begins the next interval.
    pub(in crate::slots) fn begin_interval(&mut self) -> AfterInterval<Q> {
        let aged = self.ages.begin_interval();
        let unsent = self.record_old(&aged);
        self.count_competing();
        AfterInterval { started: self.start_all(), unsent, may_claim: !aged.is_empty() }
    }

    /// Counts requests that have become old as requests to slow hosts. Their hosts are slow if they have not answered since:
    /// returns the deliveries that wait for them.
    fn record_old(&mut self, aged: &[Request]) -> Vec<Q> {
        let (mut stalled, interval) = (BTreeSet::new(), self.ages.interval());
        for Request { host, pace, .. } in aged {
            self.change_pace(*pace, (*pace).max(Pace::Slow));
            if let Some(entry) = self.hosts.get_mut(*host)
                && !entry.has_answered_lately(interval)
            {
                entry.pace.record_stall();
                self.competition.forget(&mut entry.last_competed);
                stalled.insert(host);
            }
        }
        let waiting = stalled.into_iter().filter_map(|host| self.hosts.get(*host));
        let waiting: Vec<DestinationId> = waiting.flat_map(|host| host.turns.iter().copied()).collect();
        waiting.into_iter().flat_map(|destination| self.stop_waiting(destination, 0)).collect()
    }

    /// Counts the hosts that answer and have deliveries that wait.
    fn count_competing(&mut self) {
        self.competition.begin_interval();
        for number in &self.waiting_hosts {
            if let Some(host) = self.hosts.get_mut(*number)
                && host.answers()
            {
                self.competition.record(&mut host.last_competed);
            }
        }
    }

    /// Counts a delivery under another pace.
    pub(super) fn change_pace(&mut self, from: Pace, to: Pace) {
        *self.by_pace.entry(from).or_default() -= 1;
        *self.by_pace.entry(to).or_default() += 1;
    }
}
