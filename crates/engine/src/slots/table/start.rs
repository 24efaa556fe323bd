//! Starts deliveries that wait for a place: which hosts and destinations have their turn.

use std::ops::Bound;

use super::super::hosts::HostNumber;
use super::super::places::Places;
use super::{Started, Table, Usage};

/// Hosts that are visited when a delivery has ended and its own host has none that may start.
const NEXT_HOSTS_MAX: usize = 8;

impl<Q> Table<Q> {
    /// Returns the places for requests in flight.
    pub(super) fn places(&self) -> Places {
        if self.is_closed {
            return Places::NONE;
        }
        Places::new(&self.limits, &self.ages, self.in_flight, self.competition.hosts())
    }

    /// Starts deliveries when one of this usage has ended: those of the same host that may be sent now, one of each destination
    /// in turn, or else those of another host.
    pub(in crate::slots) fn start_waiting(&mut self, usage: &Usage) -> Vec<Started<Q>> {
        let started = self.start_at(usage.host);
        if started.is_empty() { self.start_in_turn(NEXT_HOSTS_MAX, 1) } else { started }
    }

    /// Starts the deliveries of all hosts that may be sent now.
    pub(in crate::slots) fn start_all(&mut self) -> Vec<Started<Q>> {
        self.start_in_turn(usize::MAX, usize::MAX)
    }

    /// Visits up to this many hosts with deliveries that wait, after the one that was visited last, until this many
    /// deliveries have started.
    fn start_in_turn(&mut self, hosts_max: usize, deliveries_max: usize) -> Vec<Started<Q>> {
        let later = self.last_visited.map_or(Bound::Unbounded, Bound::Excluded);
        let earlier = self.last_visited.into_iter().flat_map(|last| self.waiting_hosts.range(..=last));
        let in_turn = self.waiting_hosts.range((later, Bound::Unbounded)).chain(earlier);
        let hosts: Vec<HostNumber> = in_turn.take(hosts_max).copied().collect();
        let mut started = Vec::new();
        for host in hosts {
            if started.len() >= deliveries_max || self.places().are_used() {
                break;
            }
            started.extend(self.start_at(host));
            self.last_visited = Some(host);
        }
        started
    }

    fn start_at(&mut self, number: HostNumber) -> Vec<Started<Q>> {
        let mut started = Vec::new();
        let mut places = self.places();
        let Some(host) = self.hosts.get_mut(number) else { return started };
        // Ends when no destination has used its turn, in one round of all of them.
        let mut unused_turns = 0;
        while unused_turns < host.turns.len() && host.may_start(places.of(host)) {
            let Some(turn) = host.turns.pop_front() else { break };
            let Some(destination) = self.destinations.get_mut(&turn) else { continue };
            unused_turns += 1;
            if destination.in_flight < destination.window.size()
                && let Some(mut next) = destination.waiting.pop_front()
            {
                destination.in_flight += 1;
                host.in_flight += 1;
                self.in_flight += 1;
                places.in_flight += 1;
                next.usage.start(&mut self.ages);
                unused_turns = 0;
                started.push(next);
            }
            if !destination.waiting.is_empty() {
                host.turns.push_back(turn);
            }
        }
        if host.turns.is_empty() {
            self.waiting_hosts.remove(&number);
        }
        started
    }
}
