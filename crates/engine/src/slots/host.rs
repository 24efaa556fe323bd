//! A host above its destinations: how many requests to it may start, and what answers of its destinations show about it.

use std::collections::VecDeque;
use std::time::Duration;

use posthaste_domain::DestinationId;
use posthaste_store::Pace;

use super::ages::is_long_ago;
use super::limits::Limits;
use super::pace::PaceTracker;
use super::places::PlacesOfHost;
use super::share::LastCompeted;
use super::window::{Answer, Window};

/// Requests to one host for each place that is free. So a busy host leaves places to others, whatever its share is.
const REQUESTS_PER_FREE_PLACE: usize = 4;
/// Requests to one host that may be in flight as long as any place is free.
const REQUESTS_MIN: usize = 2;
/// The first window of a host, as a multiple of that of a destination: one destination that hangs must not hold all of it.
const HOST_WINDOW_FACTOR: usize = 4;
/// Requests without an answer in a row that show a host to be silent which has answered before.
const SILENT_AFTER: usize = 2;

/// What the worker knows of a host, and has in flight to it.
pub(super) struct HostEntry {
    pub(super) window: Window,
    pub(super) pace: PaceTracker,
    /// Deliveries that wait or are sent.
    pub(super) claimed: usize,
    /// Those of them to destinations that had not answered when they were claimed.
    pub(super) unproven: usize,
    pub(super) in_flight: usize,
    /// Requests without an answer since the last one with an answer.
    pub(super) missing: usize,
    /// Destinations with deliveries that wait. The first one is served next.
    pub(super) turns: VecDeque<DestinationId>,
    pub(super) last_competed: LastCompeted,
    /// The interval in which the host last answered.
    answered_in: Option<u64>,
    pub(super) used_at: Duration,
}

impl HostEntry {
    pub(super) fn new(limits: &Limits, is_failing: bool, now: Duration) -> Self {
        Self {
            window: Window::new(limits.window_start * HOST_WINDOW_FACTOR, limits.per_host),
            pace: PaceTracker::New { is_failing },
            claimed: 0,
            unproven: 0,
            in_flight: 0,
            missing: 0,
            turns: VecDeque::new(),
            last_competed: LastCompeted::default(),
            answered_in: None,
            used_at: now,
        }
    }

    /// Returns whether another request to the host may start: up to its window, and up to its share of the places.
    pub(super) fn may_start(&self, places: PlacesOfHost) -> bool {
        let left_to_others = (places.unused * REQUESTS_PER_FREE_PLACE).max(REQUESTS_MIN);
        places.free > 0 && self.in_flight < self.window.size().min(places.share).min(left_to_others)
    }

    /// Returns whether the host answers.
    pub(super) fn answers(&self) -> bool {
        self.pace.pace() <= Pace::Steady
    }

    /// Returns how many more deliveries may be claimed for a destination of the host. Destinations that have not answered
    /// have half of its window for themselves: those that answer do not starve them, and have the other half.
    pub(super) fn available(&self, is_known: bool) -> usize {
        match is_known {
            true => (self.window.size() * self.pace.claims_per_place()).saturating_sub(self.claimed),
            false => self.unproven_max().saturating_sub(self.unproven),
        }
    }

    fn unproven_max(&self) -> usize {
        self.window.size().div_ceil(2)
    }

    /// Returns whether the window of the host limits its deliveries: all of them, or those to destinations that have not
    /// answered.
    pub(super) fn is_limiting(&self, is_unproven: bool) -> bool {
        self.claimed >= self.window.size() || (is_unproven && self.available(false) == 0)
    }

    /// Returns whether the window should grow with an answer. New destinations with one event each are claimed in groups, and
    /// no event waits to take the place of an answered one, so the first half of a group counts.
    pub(super) fn is_full(&self, is_unproven: bool) -> bool {
        self.in_flight >= self.window.size() || (is_unproven && self.unproven * 2 > self.unproven_max())
    }

    /// Returns whether the host has answered since a request that is old now has started.
    pub(super) fn has_answered_lately(&self, interval: u64) -> bool {
        self.answered_in.is_some_and(|answered_in| !is_long_ago(answered_in, interval))
    }

    /// Records that the host has answered.
    pub(super) fn record_answered(&mut self, interval: u64) {
        self.answered_in = Some(interval);
    }

    /// Returns what an answer of one destination shows about its host. A missing answer shows nothing if other
    /// destinations have answered since the last one.
    pub(super) fn judge(&mut self, answer: Answer) -> Answer {
        self.missing = match answer {
            Answer::Missing => self.missing + 1,
            Answer::Good | Answer::Refused | Answer::Failing | Answer::Overloaded => 0,
            Answer::Unknown => self.missing,
        };
        let is_single = self.missing < SILENT_AFTER && self.answers();
        if answer == Answer::Missing && is_single { Answer::Unknown } else { answer }
    }
}
