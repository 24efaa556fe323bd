//! What is known of a destination's health.

use std::time::Duration;

use posthaste_domain::{DestinationId, DestinationUrl, Timestamp, WorkerId};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationState {
    pub id: DestinationId,
    pub url: DestinationUrl,
    /// The latest report of a worker, `Closed` once that has expired.
    pub circuit: CircuitState,
    /// Nothing is claimed for it before this: it asked to be left alone.
    pub paused_until: Option<Timestamp>,
    /// When the present run of ill health began.
    pub failing_since: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitState {
    Closed,
    Open,
    HalfOpen,
}

posthaste_domain::words!(CircuitState {
    Closed => "closed",
    Open => "open",
    HalfOpen => "half_open",
});

/// One worker's view of one circuit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitReport {
    pub worker: WorkerId,
    pub destination: DestinationId,
    pub state: CircuitState,
    /// A report that nobody renews, because its worker died, is forgotten after this.
    pub expires_in: Duration,
}
