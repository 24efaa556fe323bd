//! The receivers of claimable rows: their hosts, whose slots they share.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::DestinationId;
use posthaste_store::Receiver;

/// Number of receivers beyond which those without claimable rows are forgotten.
const RECEIVERS_MAX: usize = 100_000;

/// Hosts of destinations. An entry stays true until the URL of the destination changes.
#[derive(Debug, Default)]
pub struct Receivers {
    known: BTreeMap<DestinationId, KnownReceiver>,
    /// Destinations with claimable rows whose host has not been read.
    unread: BTreeSet<DestinationId>,
}

#[derive(Debug)]
struct KnownReceiver {
    host: Box<str>,
    is_failing: bool,
}

impl Receivers {
    /// Notes that a destination has claimable rows.
    pub(super) fn note(&mut self, destination: DestinationId) {
        if !self.known.contains_key(&destination) {
            self.unread.insert(destination);
        }
    }

    /// Returns destinations whose host has not been read.
    pub fn unread(&self, limit: usize) -> Vec<DestinationId> {
        self.unread.iter().copied().take(limit).collect()
    }

    /// Records the host of a destination.
    pub fn record(&mut self, destination: DestinationId, host: &str, is_failing: bool) {
        self.unread.remove(&destination);
        self.known.insert(destination, KnownReceiver { host: host.into(), is_failing });
    }

    /// Records that the URL of a destination may have changed: its host is read again.
    pub(super) fn record_update(&mut self, destination: DestinationId) {
        if self.known.remove(&destination).is_some() {
            self.unread.insert(destination);
        }
    }

    /// Ends the search for the host of a destination that does not exist.
    pub fn forget_unread(&mut self, destination: DestinationId) {
        self.unread.remove(&destination);
    }

    /// Returns the receiver of a destination. One that has not been read has a host without a name.
    pub fn get(&self, destination: DestinationId) -> Receiver<'_> {
        let known = self.known.get(&destination);
        Receiver {
            destination,
            host: known.map_or("", |known| &known.host),
            is_failing: known.is_some_and(|known| known.is_failing),
        }
    }

    /// Forgets receivers without claimable rows if there are too many.
    pub(super) fn trim(&mut self, is_claimable: impl Fn(DestinationId) -> bool) {
        if self.known.len() > RECEIVERS_MAX {
            self.known.retain(|destination, _| is_claimable(*destination));
        }
    }
}
