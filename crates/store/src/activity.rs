//! What the workers did: reports of processes, the history for charts that the store keeps of them, and the list of workers.
//!
//! A process reports every few seconds. The store adds the counts of a report to one bucket of each [`Resolution`], and keeps
//! the process's row up to date. The number of buckets is bounded by time, not by traffic.

mod history;
mod receivers;

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DestinationId, LatencyHistogram, Timestamp, WorkerId};

use crate::StoreError;

pub use history::{ActivityBucket, HISTORY_POINTS_MAX, History, HistoryRange, Resolution};
pub use receivers::{RECEIVERS_REPORTED_MAX, RECEIVERS_SHOWN_FOR, ReceiverActivity};

/// How long a worker is listed after its last report.
pub const WORKER_LISTED_FOR: Duration = Duration::from_secs(3_600);
/// How long the row of a worker is kept after its last report.
pub const WORKER_KEPT_FOR: Duration = Duration::from_secs(24 * 3_600);
/// Maximum number of workers that are listed: those that reported last.
pub const WORKERS_LISTED_MAX: u32 = 1_000;
/// How far ahead of the clock a stored time may be: the clocks of two concurrent statements differ by no more. A time further
/// ahead was written before the clock stepped back. The store then removes a bucket, and dates a worker's heartbeat now.
pub const AHEAD_MAX: Duration = Duration::from_secs(60);
/// Maximum number of old rows of each kind that one report removes.
pub const REMOVED_MAX: u32 = 200;

/// Results and durations of requests during some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ActivityCounts {
    pub delivered: u64,
    pub retried: u64,
    /// Events that were dead-lettered.
    pub failed: u64,
    /// The durations of all requests, whatever their result.
    pub latency: LatencyHistogram,
}

impl ActivityCounts {
    /// Adds the counts of another time.
    pub fn add(&mut self, other: &Self) {
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.retried = self.retried.saturating_add(other.retried);
        self.failed = self.failed.saturating_add(other.failed);
        self.latency.add(&other.latency);
    }
}

/// A process's report on its worker: its state now, and what it did since its last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActivityReport {
    /// Identifies one start of the worker. No other start ever has the same text.
    pub process: WorkerId,
    /// The worker's name. Two processes may share it.
    pub worker: WorkerId,
    pub version: String,
    /// Time since the process started its worker.
    pub running_for: Duration,
    /// Requests in flight now.
    pub in_flight: u64,
    /// Grows with every new report of the process. The store ignores a report whose number it has seen already.
    pub sequence: u64,
    /// Whether the worker has stopped. The store then forgets the worker, and would count a repetition again.
    pub is_last: bool,
    pub counts: ActivityCounts,
    /// What the worker knows of the destinations that it used last, [`RECEIVERS_REPORTED_MAX`] at most, each once.
    pub receivers: Vec<ReceiverActivity>,
}

/// A worker, as its last report describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerStatus {
    pub worker: WorkerId,
    pub version: String,
    pub started_at: Timestamp,
    /// When the worker last reported.
    pub heartbeat_at: Timestamp,
    /// Time since the worker last reported.
    pub heartbeat_age: Duration,
    /// Requests that were in flight at the last report.
    pub in_flight: u64,
}

impl WorkerStatus {
    /// Sorts workers by name, then by start.
    pub fn sort(workers: &mut [Self]) {
        workers.sort_by(|a, b| (a.worker.as_str(), a.started_at).cmp(&(b.worker.as_str(), b.started_at)));
    }
}

/// Access to the workers of a store and to the history of their activity.
#[async_trait]
pub trait Activity: Send + Sync {
    /// Adds the counts of a report to the history, updates the worker's row, and records how many events are pending and
    /// dead-lettered now. Changes nothing if the report is a repetition. Removes up to [`REMOVED_MAX`] old rows of each kind.
    async fn report(&self, report: &ActivityReport) -> Result<(), StoreError>;

    /// Returns the history of a period that ends now. A point exists only for a time in which a process reported.
    async fn history(&self, range: HistoryRange) -> Result<History, StoreError>;

    /// Lists the workers that reported within [`WORKER_LISTED_FOR`] and have not stopped, sorted by name and start. Lists
    /// [`WORKERS_LISTED_MAX`] at most.
    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError>;

    /// Returns what the workers that reported within [`RECEIVERS_SHOWN_FOR`] and have not stopped know of these destinations,
    /// merged and sorted by destination. A destination that none of them reported is left out.
    async fn receivers(&self, destinations: &[DestinationId]) -> Result<Vec<ReceiverActivity>, StoreError>;
}
