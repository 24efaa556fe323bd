//! Retention: removing old rows in small steps.

use std::time::Duration;

/// How long rows are kept, and how many one maintenance step may remove.
#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// How long delivered events, attempts and notices are kept. `None` keeps them forever.
    pub keep_for: Option<Duration>,
    /// How long failed events are kept after their last change, with their attempts, notices and audit log. `None` keeps
    /// them forever.
    pub keep_dead_letters_for: Option<Duration>,
    /// How long a destination is kept that no event refers to, counted from its creation, the start of its failures and the
    /// last action of an operator on it. A destination that is paused or has an open circuit is kept in any case. `None`
    /// keeps all.
    pub keep_unused_destinations_for: Option<Duration>,
    /// Maximum number of rows that one step removes. A small step does not block dispatch for long.
    pub rows_max: usize,
}

/// The result of one maintenance step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MaintenanceReport {
    /// Number of events removed.
    pub removed: usize,
    /// True if another step would find rows to remove. A step examines only some of the destinations, so later steps may
    /// remove destinations although this is false.
    pub has_more: bool,
}
