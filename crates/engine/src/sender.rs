//! The port to receivers.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{Lease, Outcome};

/// Turns one lease into one request and one outcome. Whatever a receiver does is an [`Outcome`]; there is no `Err`.
#[async_trait]
pub trait Sender: Send + Sync + 'static {
    /// `timeout` covers everything from name lookup to the end of the response.
    async fn send(&self, lease: &Lease, timeout: Duration) -> Outcome;
}
