//! Requests in flight to one receiver, now and recently.

use std::sync::Arc;

use super::Pool;
use crate::target::Origin;

/// The requests in flight to an origin, and their largest number in this period and the one before.
#[derive(Debug, Default)]
pub(super) struct OriginUsage {
    in_flight: usize,
    max: usize,
    max_before: usize,
}

impl OriginUsage {
    pub(super) fn begin(&mut self) {
        self.in_flight += 1;
        self.max = self.max.max(self.in_flight);
    }

    fn end(&mut self) {
        self.in_flight -= 1;
    }

    /// Starts a new period. Its largest number begins with the requests that are in flight.
    pub(super) fn begin_period(&mut self) {
        self.max_before = self.max;
        self.max = self.in_flight;
    }

    /// Returns the largest number of requests in flight at once, in this period and the one before.
    pub(super) fn recent_max(&self) -> usize {
        self.max.max(self.max_before)
    }
}

/// Counts one request as in flight until it is dropped.
pub(crate) struct RequestInFlight {
    pool: Arc<Pool>,
    origin: Arc<Origin>,
}

impl RequestInFlight {
    pub(super) fn new(pool: Arc<Pool>, origin: Arc<Origin>) -> Self {
        Self { pool, origin }
    }
}

impl Drop for RequestInFlight {
    fn drop(&mut self) {
        // The entry exists: it stays while a request is in flight.
        if let Some(usage) = self.pool.state().usage.get_mut(&self.origin) {
            usage.end();
        }
    }
}
