//! What this process knows to be claimable, so that a claim asks only for what it can send.
//!
//! A destination that is saturated, paused or behind an open circuit costs nothing, because it is not asked for. What
//! is known are *spans* of turns per destination, found by discovery and used up by claims, in two lanes: first
//! attempts in the order of their arrival, retries in the order in which they are due. Knowledge may be stale: a span
//! whose rows another worker took brings nothing and is dropped.
//!
//! Pure: statements bring what is told here, and carry out what is planned here.

mod gaps;
mod lane;
mod plan;

use std::collections::BTreeMap;

use posthaste_domain::{DestinationId, EventKey, Timestamp};

pub(crate) use gaps::{Gaps, Horizon};
pub(crate) use lane::{Lane, Span};
pub(crate) use plan::{Ask, Plan, Room};

/// Turns of first attempts are counted and stay below this; turns of retries are microseconds since the epoch and
/// have been above it since 2001.
pub(crate) const RETRIES_FROM: i64 = 1_000_000_000_000_000;

/// An expired lease that was found and not taken over yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expired {
    pub(crate) destination: DestinationId,
    pub(crate) attempts: u32,
    pub(crate) lost_leases: u32,
}

#[derive(Debug, Default)]
pub(crate) struct Frontier {
    pub(crate) firsts: Lane,
    pub(crate) retries: Lane,
    pub(crate) expired: BTreeMap<EventKey, Expired>,
    /// Destinations that were found paused, and until when.
    paused: BTreeMap<DestinationId, Timestamp>,
}

impl Frontier {
    pub(crate) fn lane(&mut self, turn: i64) -> &mut Lane {
        if turn < RETRIES_FROM { &mut self.firsts } else { &mut self.retries }
    }

    /// Discovery saw a row that nobody has a lease on.
    pub(crate) fn saw(&mut self, destination: DestinationId, turn: i64) {
        self.lane(turn).saw(destination, turn);
    }

    pub(crate) fn pause(&mut self, destination: DestinationId, until: Timestamp) {
        self.paused.insert(destination, until);
    }

    fn is_paused(&self, destination: DestinationId, now: Timestamp) -> bool {
        self.paused.get(&destination).is_some_and(|until| *until > now)
    }

    /// Pauses that are over need no remembering.
    pub(crate) fn forget_pauses(&mut self, now: Timestamp) {
        self.paused.retain(|_, until| *until > now);
    }

    /// What came of an ask: how many rows, and the turn of the last.
    pub(crate) fn used(&mut self, ask: &Ask, granted: usize, last: Option<i64>) {
        let span = ask.span;
        let is_retry = span.high >= RETRIES_FROM;
        let used_to = match last {
            // Several retries may have the same turn, and not all of them been granted.
            Some(last) if granted >= ask.want => last - i64::from(is_retry),
            // Fewer than asked for: there are no more.
            _ => span.high,
        };
        self.lane(span.high).exhaust(ask.destination, Span { low: span.low, high: used_to });
    }
}
