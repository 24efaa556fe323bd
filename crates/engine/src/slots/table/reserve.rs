//! Places that are reserved for new events while the store stores them.

use std::time::Duration;

use posthaste_domain::DestinationId;
use posthaste_store::Pace;

use super::super::hosts::HostNumber;
use super::{NewDelivery, Table, Usage};

impl<Q> Table<Q> {
    /// Takes places for new small events to these URLs, if all of them can be sent at once and overtake no event that waits
    /// here or in the store. The places count as deliveries that are sent.
    pub(in crate::slots) fn reserve(
        &mut self,
        urls: &[&str],
        may_send: impl Fn(DestinationId) -> bool,
        now: Duration,
    ) -> Option<Vec<Usage>> {
        let mut usages = Vec::with_capacity(urls.len());
        for url in urls {
            let free = self.free_place(url).filter(|(destination, _)| may_send(*destination));
            let Some((destination, host)) = free else {
                self.end_all(&usages);
                return None;
            };
            let new =
                NewDelivery { destination, url, host, is_retry: false, payload_bytes: 0, is_unread: false };
            let usage = self.use_slot(new, now);
            let (destination, host) = self.entries(&usage);
            destination.in_flight += 1;
            host.in_flight += 1;
            self.in_flight += 1;
            usages.push(usage);
        }
        self.open_reservations += 1;
        Some(usages)
    }

    /// Returns the destination with this URL and its host, if a new event to it can be sent at once.
    fn free_place(&self, url: &str) -> Option<(DestinationId, HostNumber)> {
        let id = *self.by_url.get(url)?;
        let destination = self.destinations.get(&id)?;
        let host = self.hosts.get(destination.host)?;
        let is_served = self.left_behind.has_none_of(id);
        let is_allowed = !self.is_closed && !self.held.contains_key(&id);
        let is_prompt = destination.is_known && host.pace.pace() == Pace::Prompt;
        let has_place = !self.is_full()
            && destination.in_flight < destination.window.size()
            && host.may_start(self.places().of(host));
        let is_first = destination.waiting.is_empty() && host.turns.is_empty();
        (is_served && is_allowed && is_prompt && has_place && is_first).then_some((id, destination.host))
    }

    /// Records that a delivery whose place was reserved is sent.
    pub(in crate::slots) fn start_reserved(&mut self, usage: &mut Usage) {
        usage.start(&mut self.ages);
    }
}
