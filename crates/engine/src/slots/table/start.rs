//! Starts deliveries that wait for a place: which hosts and destinations have their turn.

use std::ops::Bound;
use std::sync::Arc;

use super::{Started, Table, Usage};

/// Hosts that are visited when a delivery has ended and its own host has none that may start.
const NEXT_HOSTS_MAX: usize = 8;

impl<Q> Table<Q> {
    /// Returns the free places for requests in flight.
    pub(super) fn places(&self) -> usize {
        if self.is_closed { 0 } else { self.limits.in_flight.saturating_sub(self.in_flight) }
    }

    /// Starts deliveries when one of this usage has ended: those of the same host that may be sent now, one of each destination
    /// in turn, or else those of another host.
    pub(in crate::slots) fn start_waiting(&mut self, usage: &Usage) -> Vec<Started<Q>> {
        let started = self.start_at(&Arc::clone(&usage.host));
        if started.is_empty() { self.start_in_turn(NEXT_HOSTS_MAX, 1) } else { started }
    }

    /// Starts the deliveries of all hosts that may be sent now.
    pub(in crate::slots) fn start_all(&mut self) -> Vec<Started<Q>> {
        self.start_in_turn(usize::MAX, usize::MAX)
    }

    /// Visits up to this many hosts with deliveries that wait, after the one that was visited last, until this many
    /// deliveries have started.
    fn start_in_turn(&mut self, hosts_max: usize, deliveries_max: usize) -> Vec<Started<Q>> {
        let after = self.last_visited.clone();
        let later = after.as_ref().map_or(Bound::Unbounded, Bound::Excluded);
        let until = after.as_ref().map_or(Bound::Excluded(""), |host| Bound::Included(&**host));
        let in_turn = self.waiting_hosts.range::<Arc<str>, _>((later, Bound::Unbounded));
        let in_turn = in_turn.chain(self.waiting_hosts.range::<str, _>((Bound::Unbounded, until)));
        let hosts: Vec<Arc<str>> = in_turn.take(hosts_max).cloned().collect();
        let mut started = Vec::new();
        for host in hosts {
            if started.len() >= deliveries_max || self.places() == 0 {
                break;
            }
            started.extend(self.start_at(&host));
            self.last_visited = Some(host);
        }
        started
    }

    fn start_at(&mut self, name: &Arc<str>) -> Vec<Started<Q>> {
        let mut started = Vec::new();
        let mut places = self.places();
        let Some(host) = self.hosts.get_mut(name) else { return started };
        // Ends when no destination has used its turn, in one round of all of them.
        let mut unused_turns = 0;
        while unused_turns < host.turns.len() && host.may_start(places) {
            let Some(turn) = host.turns.pop_front() else { break };
            let Some(destination) = self.destinations.get_mut(&turn) else { continue };
            unused_turns += 1;
            if destination.in_flight < destination.window.size()
                && let Some(next) = destination.waiting.pop_front()
            {
                destination.in_flight += 1;
                host.in_flight += 1;
                self.in_flight += 1;
                places -= 1;
                unused_turns = 0;
                started.push(next);
            }
            if !destination.waiting.is_empty() {
                host.turns.push_back(turn);
            }
        }
        if host.turns.is_empty() {
            self.waiting_hosts.remove(name);
        }
        started
    }
}
