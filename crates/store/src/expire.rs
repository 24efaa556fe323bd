//! Expiry: dead-lettering events that have been pending for too long.

use std::time::Duration;

use posthaste_domain::{EventId, EventKey};

/// A request for one step of a walk over the pending events, in the order of their keys.
///
/// Keys are assigned in the order of creation. A walk therefore begins with the oldest events, and ends at the first step
/// whose last event was created less than `expire_after` ago.
#[derive(Debug, Clone, Copy)]
pub struct ExpireRequest {
    /// How long after it was first due or last requeued an event expires.
    pub expire_after: Duration,
    /// Where the walk continues: `next` of the previous step. `None` begins a walk.
    pub after: Option<EventKey>,
    /// Maximum number of events that the step examines. A small step does not block dispatch for long.
    pub rows_max: usize,
}

/// The result of one step of a walk.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpireResponse {
    /// The events that this step dead-lettered, in the order of their keys.
    pub expired: Vec<EventId>,
    /// Where the next step continues, or `None` at the end of the walk.
    pub next: Option<EventKey>,
}
