//! The interface through which the engine sends requests to receivers.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{Lease, Outcome};

/// Sends one HTTP request for one lease. Every failure of a receiver is an [`Outcome`]; there is no `Err`.
#[async_trait]
pub trait Sender: Send + Sync + 'static {
    /// Sends the lease's event once and returns the outcome. `timeout` covers the whole exchange, from the name lookup
    /// to the end of the response.
    async fn send(&self, lease: &Lease, timeout: Duration) -> Outcome;
}
