//! The health of a destination: its circuit, its pause and its failures.

use std::time::Duration;

use posthaste_domain::{DestinationId, DestinationUrl, Timestamp, WorkerId};

/// The state of a destination: its circuit, its pause, and since when it has been failing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationState {
    pub id: DestinationId,
    pub url: DestinationUrl,
    /// The circuit state that a worker reported last, or `Closed` once that report has expired.
    pub circuit: CircuitState,
    /// The end of the pause that the receiver requested. Claims skip the destination until then.
    pub paused_until: Option<Timestamp>,
    /// When the current run of failures began. `None` while the destination is healthy.
    pub failing_since: Option<Timestamp>,
}

/// The state of a circuit breaker, as operators see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    Closed,
    Open,
    HalfOpen,
}

posthaste_domain::named_variants!(CircuitState {
    Closed => "closed",
    Open => "open",
    HalfOpen => "half_open",
});

/// The state of one circuit, reported by one worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitReport {
    pub worker: WorkerId,
    pub destination: DestinationId,
    pub state: CircuitState,
    /// How long the report is valid. The report of a dead worker, which no longer renews it, expires.
    pub expires_in: Duration,
}
