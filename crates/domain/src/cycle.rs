//! Counters of one reporting period of a worker.

use std::time::Duration;

use crate::{Decision, OutcomeBucket, Transition};

/// The counters of one dispatch cycle. The log line uses the same field names.
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
    /// Counts the attempt in its HTTP bucket, whether or not its result could be written.
    pub fn count_outcome(&mut self, transition: &Transition) {
        *match transition.outcome().bucket() {
            OutcomeBucket::Http2xx => &mut self.http_2xx_count,
            OutcomeBucket::Http3xx => &mut self.http_3xx_count,
            OutcomeBucket::Http4xx => &mut self.http_4xx_count,
            OutcomeBucket::Http5xx => &mut self.http_5xx_count,
            OutcomeBucket::NetworkError => &mut self.network_error_count,
        } += 1;
    }

    /// Counts a written transition as delivered, retried or failed. Do not call it for a stale write.
    pub fn count_written(&mut self, transition: &Transition) {
        *match transition.decision() {
            Decision::Delivered => &mut self.delivered_count,
            Decision::Retry { .. } => &mut self.retried_count,
            Decision::Failed(_) => &mut self.failed_count,
        } += 1;
    }

    /// Records how long the cycle took.
    pub fn set_duration(&mut self, duration: Duration) {
        self.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    }
}
