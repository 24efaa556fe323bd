//! What a worker did in one reporting period.

use std::time::Duration;

use crate::{Bucket, Decision, Transition};

/// The counters of one cycle, named as they are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CycleReport {
    pub claimed_count: u64,
    pub delivered_count: u64,
    pub retried_count: u64,
    pub failed_count: u64,
    pub stale_write_count: u64,
    pub http_2xx_count: u64,
    pub http_3xx_count: u64,
    pub http_4xx_count: u64,
    pub http_5xx_count: u64,
    pub network_error_count: u64,
    pub duration_ms: u64,
}

impl CycleReport {
    /// Every request counts in its bucket, whether or not its result could be written.
    pub fn count_outcome(&mut self, transition: &Transition) {
        *match transition.outcome().bucket() {
            Bucket::Http2xx => &mut self.http_2xx_count,
            Bucket::Http3xx => &mut self.http_3xx_count,
            Bucket::Http4xx => &mut self.http_4xx_count,
            Bucket::Http5xx => &mut self.http_5xx_count,
            Bucket::NetworkError => &mut self.network_error_count,
        } += 1;
    }

    /// Only what was written counts as delivered, retried or failed.
    pub fn count_written(&mut self, transition: &Transition) {
        *match transition.decision() {
            Decision::Delivered => &mut self.delivered_count,
            Decision::Retry { .. } => &mut self.retried_count,
            Decision::Failed(_) => &mut self.failed_count,
        } += 1;
    }

    pub fn lasted(&mut self, duration: Duration) {
        self.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    }
}
