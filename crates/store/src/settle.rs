//! What an attempt led to, on its way to being written.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::Transition;

/// A transition to be written.
#[derive(Debug, Clone)]
pub struct Settlement {
    pub transition: Arc<Transition>,
    /// How long ago the attempt ended; a settle that waited out an outage still dates its attempt rightly.
    pub ended_ago: Duration,
}

/// What became of a settlement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settled {
    Applied,
    /// It had been applied before; the reply was lost. Nothing changed.
    Replayed,
    /// The lease was lost: expired and taken over, or cancelled. Nothing changed.
    Stale,
}

impl Settled {
    /// The settlement is on record, now or since before.
    pub const fn is_written(self) -> bool {
        matches!(self, Self::Applied | Self::Replayed)
    }
}
