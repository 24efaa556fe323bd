//! Retention, in small steps.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub struct Retention {
    /// How long delivered events, attempts and notices are kept; none keeps all. Failed events stay until an operator acts.
    pub keep: Option<Duration>,
    /// Most rows that one step removes, so that dispatch is never blocked for long.
    pub rows_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Maintained {
    pub removed: usize,
    /// True when another step would find more.
    pub more: bool,
}
