//! What claims have left in the store: new events must not overtake it.

use std::collections::BTreeMap;

use posthaste_domain::DestinationId;

/// Due events that the last claim did not take, as far as the worker knows.
#[derive(Default)]
pub(super) struct LeftBehind {
    /// Destinations that may have such events, with the number of the claim that showed it.
    limited: BTreeMap<DestinationId, u64>,
    /// Number of claims that were answered.
    claims: u64,
    /// Whether the last claim took all due events, except those of limited destinations.
    is_caught_up: bool,
}

impl LeftBehind {
    /// Records that the current claim cannot take all due events of a destination.
    pub(super) fn mark(&mut self, destination: DestinationId) {
        self.limited.insert(destination, self.claims);
    }

    /// Records that the last claim, which has been counted, could take no more of a destination.
    pub(super) fn mark_by_last_claim(&mut self, destination: DestinationId) {
        self.limited.entry(destination).or_insert(self.claims.saturating_sub(1));
    }

    /// Records the answer to a claim, before its deliveries are added. `is_complete` says whether it took all due events that
    /// the slots of their receivers allowed.
    pub(super) fn record_claim(&mut self, is_complete: bool) {
        let claim = self.claims;
        self.limited.retain(|_, marked_by| *marked_by >= claim);
        self.claims += 1;
        self.is_caught_up = is_complete;
    }

    /// Records that the last claim got no answer, or that nothing was claimed although slots may be free.
    pub(super) fn record_no_claim(&mut self) {
        self.is_caught_up = false;
    }

    /// Returns whether the last claim took all due events of a destination.
    pub(super) fn has_none_of(&self, destination: DestinationId) -> bool {
        self.is_caught_up && !self.limited.contains_key(&destination)
    }

    /// Forgets which destinations have such events.
    #[cfg(test)]
    pub(super) fn forget_destinations(&mut self) {
        self.limited.clear();
    }
}
