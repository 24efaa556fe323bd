//! The leases of a claim, with what their notices will repeat.

use posthaste_domain::Lease;

use crate::notices::EventReferences;

/// The leases that a claim has been granted, with the references of their events.
#[derive(Default)]
pub(super) struct GrantedLeases {
    leases: Vec<Lease>,
    references: Vec<EventReferences>,
}

impl GrantedLeases {
    pub(super) fn push(&mut self, lease: Lease, references: EventReferences) {
        self.leases.push(lease);
        self.references.push(references);
    }

    pub(super) fn reserve(&mut self, additional: usize) {
        self.leases.reserve(additional);
        self.references.reserve(additional);
    }

    pub(super) fn len(&self) -> usize {
        self.leases.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// Returns the leases with their references, and leaves no references behind.
    pub(super) fn take_references(&mut self) -> impl Iterator<Item = (&Lease, EventReferences)> {
        self.leases.iter().zip(self.references.drain(..))
    }

    pub(super) fn into_leases(self) -> Vec<Lease> {
        self.leases
    }
}
