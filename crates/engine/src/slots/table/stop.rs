//! Stops deliveries that wait: the receiver has shown that they should not be sent now, or the worker drains.

use posthaste_domain::DestinationId;

use super::{Table, Usage};

impl<Q> Table<Q> {
    /// Lets at most `waiting_max` deliveries of a destination wait, and returns the others, which use no slot any more.
    pub(in crate::slots) fn stop_waiting(
        &mut self,
        destination: DestinationId,
        waiting_max: usize,
    ) -> Vec<Q> {
        let Some(entry) = self.destinations.get_mut(&destination) else { return Vec::new() };
        let kept = entry.waiting.len().min(waiting_max);
        let unsent: Vec<_> = entry.waiting.split_off(kept).into();
        if kept == 0
            && let Some(host) = self.hosts.get_mut(entry.host)
        {
            host.turns.retain(|turn| *turn != destination);
            if host.turns.is_empty() {
                self.waiting_hosts.remove(&entry.host);
            }
        }
        if !unsent.is_empty() {
            self.left_behind.mark(destination);
        }
        unsent
            .into_iter()
            .map(|started| {
                self.free(&started.usage);
                started.delivery
            })
            .collect()
    }

    /// Makes the window of a destination start again, because its circuit has opened. Returns the deliveries that wait for
    /// it, which use no slot any more.
    pub(in crate::slots) fn restart_window(&mut self, destination: DestinationId) -> Vec<Q> {
        if let Some(entry) = self.destinations.get_mut(&destination) {
            entry.window.restart();
            entry.is_known = false;
        }
        self.stop_all(destination)
    }

    /// Claims nothing for a destination until [`unhold`](Self::unhold): a result that pauses it is not written yet. Returns
    /// the deliveries that wait for it, which use no slot any more.
    pub(in crate::slots) fn hold(&mut self, destination: DestinationId) -> Vec<Q> {
        *self.held.entry(destination).or_default() += 1;
        self.stop_all(destination)
    }

    /// Lets no delivery of a destination wait, and returns those that did. Those whose payload is being read follow when it
    /// has been read.
    pub(super) fn stop_all(&mut self, destination: DestinationId) -> Vec<Q> {
        if let Some(entry) = self.destinations.get_mut(&destination) {
            entry.stops += 1;
        }
        self.stop_waiting(destination, 0)
    }

    /// Returns whether a delivery whose payload has been read should not be sent after all.
    pub(in crate::slots) fn is_stopped(&mut self, usage: &Usage) -> bool {
        self.is_closed || self.entries(usage).0.stops != usage.stops
    }

    /// Ends one [`hold`](Self::hold) of a destination.
    pub(in crate::slots) fn unhold(&mut self, destination: DestinationId) {
        if let Some(results) = self.held.get_mut(&destination) {
            *results -= 1;
            if *results == 0 {
                self.held.remove(&destination);
            }
        }
    }

    /// Starts no delivery from now on, and returns those that wait. They use no slot any more.
    pub(in crate::slots) fn close(&mut self) -> Vec<Q> {
        self.is_closed = true;
        let destinations: Vec<DestinationId> = self.destinations.keys().copied().collect();
        destinations.into_iter().flat_map(|destination| self.stop_waiting(destination, 0)).collect()
    }
}
