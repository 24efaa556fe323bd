//! The places for requests in flight: how many are free, and which hosts may use them.
//!
//! Hosts that answered at once can all stop answering at the same moment. So the last places are kept for hosts that have
//! nothing in flight, and a part of them for those that have answered lately. When the requests of the others have been in
//! flight for long, those that hold more than three quarters of the places do not count: as many more requests may be in
//! flight, to hosts that answer.

use posthaste_store::Pace;

use super::ages::RequestAges;
use super::host::HostEntry;
use super::limits::Limits;
use super::share::fair_share;

/// The part of the places that is kept for hosts without a request in flight.
const FIRST_REQUESTS_PART: usize = 8;

/// The places of a worker.
#[derive(Debug, Clone, Copy)]
pub(super) struct Places {
    /// Requests that may be in flight.
    max: usize,
    /// Requests that may be in flight beyond `max`, to hosts that answer.
    reserve: usize,
    pub(super) in_flight: usize,
    /// How many requests a host may have in flight.
    share: usize,
    interval: u64,
}

/// The places for requests, as one host sees them.
#[derive(Debug, Clone, Copy)]
pub(super) struct PlacesOfHost {
    /// Free places that the host may use.
    pub(super) free: usize,
    /// All places without a request.
    pub(super) unused: usize,
    pub(super) share: usize,
}

impl Places {
    pub(super) const NONE: Self = Self { max: 0, reserve: 0, in_flight: 0, share: 0, interval: 0 };

    /// `hosts` is the number of those that compete for places.
    pub(super) fn new(limits: &Limits, ages: &RequestAges, in_flight: usize, hosts: usize) -> Self {
        let max = limits.in_flight;
        let reserve = ages.old().saturating_sub(limits.of_pace(Pace::Steady)).min(max / 4);
        Self { max, reserve, in_flight, share: fair_share(max, hosts), interval: ages.interval() }
    }

    /// Returns whether no host may start another request.
    pub(super) fn are_used(self) -> bool {
        self.in_flight >= self.max + self.reserve
    }

    /// Returns the places for a host.
    pub(super) fn of(self, host: &HostEntry) -> PlacesOfHost {
        let unused = (self.max + self.reserve).saturating_sub(self.in_flight);
        PlacesOfHost { free: self.max_of(host).saturating_sub(self.in_flight), unused, share: self.share }
    }

    /// Returns how many requests may be in flight in all for a host to start another one.
    fn max_of(self, host: &HostEntry) -> usize {
        let for_first_requests = self.max / FIRST_REQUESTS_PART;
        let is_first = host.in_flight == 0;
        match (host.has_answered_lately(self.interval), is_first) {
            (true, true) => self.max + self.reserve,
            (true, false) => self.max + self.reserve - for_first_requests,
            // One request shows whether the host still answers. Half of the places for such requests are left to others.
            (false, true) if host.answers() => self.max + self.reserve / 2 - for_first_requests / 2,
            (false, true) => self.max - for_first_requests / 2,
            (false, false) => self.max - for_first_requests,
        }
    }
}
