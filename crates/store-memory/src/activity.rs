//! Reports of workers: their rows, and the buckets of the history.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use async_trait::async_trait;
use posthaste_domain::{DeliveryStatus, DestinationId, Timestamp, WorkerId};
use posthaste_store::{
    AHEAD_MAX, Activity, ActivityBucket, ActivityReport, History, HistoryRange, RECEIVERS_SHOWN_FOR,
    REMOVED_MAX, ReceiverActivity, Resolution, StoreError, WORKER_KEPT_FOR, WORKER_LISTED_FOR,
    WORKERS_LISTED_MAX, WorkerStatus,
};

use crate::MemoryStore;
use crate::state::{Row, State};

/// The tables of activity.
#[derive(Default)]
pub struct ActivityTables {
    pub buckets: BTreeMap<(Resolution, Timestamp), ActivityBucket>,
    /// The workers by process.
    pub workers: BTreeMap<WorkerId, WorkerRow>,
}

/// The last report of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerRow {
    pub worker: WorkerId,
    pub version: String,
    pub started_at: Timestamp,
    pub heartbeat_at: Timestamp,
    pub in_flight: u64,
    pub last_sequence: u64,
    pub receivers: Vec<ReceiverActivity>,
}

fn report(state: &mut State, now: Timestamp, report: &ActivityReport) {
    let workers = &mut state.activity.workers;
    let is_repeated = workers.get(&report.process).is_some_and(|row| row.last_sequence >= report.sequence);
    if report.is_last {
        workers.remove(&report.process);
    }
    if is_repeated {
        return;
    }
    if !report.is_last {
        let row = WorkerRow {
            worker: report.worker.clone(),
            version: report.version.clone(),
            started_at: now.before(report.running_for),
            heartbeat_at: now,
            in_flight: report.in_flight,
            last_sequence: report.sequence,
            receivers: report.receivers.clone(),
        };
        workers.insert(report.process.clone(), row);
    }
    add_counts(state, now, report);
    remove_old(&mut state.activity, now);
}

/// Adds the counts of a report to one bucket of each resolution.
fn add_counts(state: &mut State, now: Timestamp, report: &ActivityReport) {
    let count = |matches: fn(&Row) -> bool| state.rows.values().filter(|row| matches(row)).count() as u64;
    let pending = count(|row| row.status == DeliveryStatus::Pending);
    let dead_letters = count(Row::is_dead_letter);
    for resolution in Resolution::ALL {
        let at = resolution.bucket_start(now);
        let empty = ActivityBucket { at, counts: Default::default(), pending: 0, dead_letters: 0 };
        let bucket = state.activity.buckets.entry((resolution, at)).or_insert(empty);
        bucket.counts.add(&report.counts);
        (bucket.pending, bucket.dead_letters) = (pending, dead_letters);
    }
}

/// Removes old rows, and repairs times that lie ahead because the clock has stepped back.
fn remove_old(tables: &mut ActivityTables, now: Timestamp) {
    let ahead = now.after(AHEAD_MAX);
    let is_old =
        |(resolution, at): &(Resolution, Timestamp)| *at < resolution.oldest_kept(now) || *at > ahead;
    let old: Vec<_> = tables.buckets.keys().copied().filter(is_old).take(REMOVED_MAX as usize).collect();
    for key in old {
        tables.buckets.remove(&key);
    }
    for row in tables.workers.values_mut().filter(|row| row.heartbeat_at > ahead) {
        row.heartbeat_at = now;
    }
    let horizon = now.before(WORKER_KEPT_FOR);
    let old = tables.workers.iter().filter(|(_, row)| row.heartbeat_at <= horizon);
    let old: Vec<WorkerId> = old.map(|(process, _)| process.clone()).take(REMOVED_MAX as usize).collect();
    for process in old {
        tables.workers.remove(&process);
    }
}

fn workers(state: &State, now: Timestamp) -> Vec<WorkerStatus> {
    let horizon = now.before(WORKER_LISTED_FOR);
    let rows = state.activity.workers.values().filter(|row| row.heartbeat_at > horizon);
    let mut workers: Vec<WorkerStatus> = rows
        .map(|row| WorkerStatus {
            worker: row.worker.clone(),
            version: row.version.clone(),
            started_at: row.started_at,
            heartbeat_at: row.heartbeat_at,
            heartbeat_age: now.since(row.heartbeat_at),
            in_flight: row.in_flight,
        })
        .collect();
    workers.sort_by_key(|worker| Reverse(worker.heartbeat_at));
    workers.truncate(WORKERS_LISTED_MAX as usize);
    WorkerStatus::sort(&mut workers);
    workers
}

#[async_trait]
impl Activity for MemoryStore {
    async fn report(&self, new: &ActivityReport) -> Result<(), StoreError> {
        self.transact(|state, now| report(state, now, new));
        Ok(())
    }

    async fn history(&self, range: HistoryRange) -> Result<History, StoreError> {
        Ok(self.transact(|state, now| {
            let buckets = state.activity.buckets.iter();
            let of_resolution = buckets.filter(|((resolution, _), _)| *resolution == range.resolution());
            range.merge(now, of_resolution.map(|(_, bucket)| bucket.clone()))
        }))
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        Ok(self.transact(|state, now| workers(state, now)))
    }

    async fn receivers(&self, destinations: &[DestinationId]) -> Result<Vec<ReceiverActivity>, StoreError> {
        Ok(self.transact(|state, now| {
            let horizon = now.before(RECEIVERS_SHOWN_FOR);
            let workers = state.activity.workers.values().filter(|row| row.heartbeat_at > horizon);
            let reported = workers.flat_map(|row| row.receivers.iter().copied());
            ReceiverActivity::merge(reported.filter(|receiver| destinations.contains(&receiver.destination)))
        }))
    }
}
