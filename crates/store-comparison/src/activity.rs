//! Reports of workers, the history that they add up to, and the list of workers.
//!
//! The buckets of the history begin at multiples of their length on the clock of each store, so one pair of reports may share a
//! bucket in one store and not in the other. Therefore neighbouring points are added up where time advances by more than a
//! bucket, and all points of a longer period. Every period is left out while a report is close to its beginning.

mod generate;

use std::time::Duration;

use posthaste_domain::{DestinationId, WorkerId};
use posthaste_store::{
    ActivityBucket, ActivityCounts, ActivityReport, History, HistoryRange, RECEIVERS_SHOWN_FOR,
    ReceiverActivity, Store as _, WorkerStatus,
};

use crate::clock_offset::snap_to_model;
use crate::difference::{ComparisonResult, Difference, compare};
use crate::durations::TOLERANCE;
use crate::operation::{Handle, Worker};
use crate::sequence_run::SequenceRun;

pub(crate) use generate::activity_calls;

/// A call on the activity of the store.
#[derive(Debug, Clone)]
#[expect(clippy::large_enum_variant, reason = "a sequence has at most a few hundred calls")]
pub(crate) enum ActivityCall {
    Report(ReportSpec),
    /// Reads the history of every range and the list of workers.
    Read,
}

/// A report of a process.
#[derive(Debug, Clone)]
pub(crate) struct ReportSpec {
    /// One of a few processes.
    pub(crate) process: u8,
    pub(crate) worker: Worker,
    pub(crate) sequence: SequenceChoice,
    pub(crate) running_for: Duration,
    pub(crate) in_flight: u64,
    pub(crate) is_last: bool,
    pub(crate) counts: ActivityCounts,
    pub(crate) receivers: Vec<ReceiverActivity>,
}

/// The number of a report.
#[derive(Debug, Clone, Copy)]
pub(crate) enum SequenceChoice {
    /// A number above that of the process's last report.
    Next,
    /// The number of the process's last report.
    Repeated,
    /// A number below that of the process's last report.
    Older,
}

impl SequenceChoice {
    /// Returns the number, by that of the last report. Before the first report every choice is new.
    const fn after(self, last: u64) -> u64 {
        match self {
            Self::Next => last + 2,
            Self::Repeated => last,
            Self::Older => last.saturating_sub(1),
        }
    }
}

impl SequenceRun<'_> {
    pub(crate) async fn run_on_activity(
        &mut self,
        handle: Handle,
        call: &ActivityCall,
    ) -> ComparisonResult<String> {
        if let ActivityCall::Report(spec) = call {
            self.report_activity(handle, spec).await?;
        }
        self.compare_activity(handle.other()).await?;
        Ok(String::new())
    }

    async fn report_activity(&mut self, handle: Handle, spec: &ReportSpec) -> ComparisonResult {
        let process = worker_id(&format!("process-{}", spec.process));
        let last =
            self.model.with_state(|state| state.activity.workers.get(&process).map(|row| row.last_sequence));
        let sequence = spec.sequence.after(last.unwrap_or(1));
        let report = ActivityReport {
            process,
            worker: worker_id(spec.worker.name()),
            version: format!("1.0.{}", spec.process),
            running_for: spec.running_for,
            in_flight: spec.in_flight,
            sequence,
            is_last: spec.is_last,
            counts: spec.counts,
            receivers: spec.receivers.clone(),
        };
        let stored = self.store(handle).activity().report(&report).await;
        stored.map_err(|error| Difference::failed("report", &error))?;
        self.model.activity().report(&report).await.expect("the model is always up");
        if last.is_some_and(|last| last >= sequence) {
            self.tally.add("repeated reports of activity", 1);
        } else {
            self.tally.add("reports of activity", 1);
            self.reported_at.push(self.now());
        }
        Ok(())
    }

    /// Compares the history of every range, and the workers, if a worker has reported.
    pub(crate) async fn compare_activity(&mut self, handle: Handle) -> ComparisonResult {
        if self.reported_at.is_empty() {
            return Ok(());
        }
        for range in HistoryRange::ALL.iter().copied() {
            self.compare_history(handle, range).await?;
        }
        self.compare_workers(handle).await?;
        self.compare_receivers(handle).await
    }

    async fn compare_history(&mut self, handle: Handle, range: HistoryRange) -> ComparisonResult {
        let store = self.store(handle).activity().history(range).await;
        let store = store.map_err(|error| Difference::failed("history", &error))?;
        let model = self.model.activity().history(range).await.expect("the model is always up");
        let (shape, own) = ((model.range, model.step_seconds), (store.range, store.step_seconds));
        compare("the range of a history", &shape, &own)?;
        check_steps(&store)?;
        if self.is_near_the_beginning(range) {
            return Ok(());
        }
        self.tally.add("compared histories", 1);
        let is_fine = Duration::from_secs(range.step_seconds().into()) < TOLERANCE;
        let gap = if is_fine { i64::from(range.step_seconds()) } else { i64::MAX };
        let (model, store) = (merge_neighbours(&model, gap), merge_neighbours(&store, gap));
        let converted: Vec<ActivityBucket> = store
            .iter()
            .enumerate()
            .map(|(index, point)| {
                let expected = model.get(index).map(|model| model.at);
                let at = expected
                    .filter(|_| !is_fine)
                    .unwrap_or_else(|| self.clock_offset.to_model(point.at, expected.unwrap_or_default()));
                ActivityBucket { at, ..point.clone() }
            })
            .collect();
        compare(&format!("the history of {}", range.as_str()), &model, &converted)
    }

    /// Returns whether a report is so old that the range may begin before it or after it.
    fn is_near_the_beginning(&self, range: HistoryRange) -> bool {
        let now = self.now();
        let surely_within =
            range.duration().saturating_sub(Duration::from_secs(range.step_seconds().into()) + TOLERANCE);
        self.reported_at
            .iter()
            .map(|at| now.since(*at))
            .any(|age| age > surely_within && age < range.duration())
    }

    /// Compares what workers know of destinations, unless a report becomes too old to count about now.
    async fn compare_receivers(&mut self, handle: Handle) -> ComparisonResult {
        let now = self.now();
        let ages = self.reported_at.iter().map(|at| now.since(*at));
        if ages.into_iter().any(|age| age.abs_diff(RECEIVERS_SHOWN_FOR) < TOLERANCE) {
            return Ok(());
        }
        let destinations: Vec<DestinationId> = (1..=3).map(DestinationId).collect();
        let store = self.store(handle).activity().receivers(&destinations).await;
        let store = store.map_err(|error| Difference::failed("receivers", &error))?;
        let model = self.model.activity().receivers(&destinations).await.expect("the model is always up");
        self.tally.add("receivers that workers described", model.len());
        compare("what workers know of destinations", &model, &store)
    }

    async fn compare_workers(&mut self, handle: Handle) -> ComparisonResult {
        let store = self.store(handle).activity().workers().await;
        let mut store = store.map_err(|error| Difference::failed("workers", &error))?;
        let mut model = self.model.activity().workers().await.expect("the model is always up");
        if !store.is_sorted_by_key(|it| (it.worker.as_str().to_owned(), it.started_at)) {
            return Err(Difference::new(format!("workers are not sorted by name and start: {store:?}")));
        }
        // Two workers of one name may have started at the same time of the model.
        store.sort_by(|a, b| a.version.cmp(&b.version));
        model.sort_by(|a, b| a.version.cmp(&b.version));
        let offset = &self.clock_offset;
        let converted: Vec<WorkerStatus> = store
            .iter()
            .enumerate()
            .map(|(index, store)| match model.get(index) {
                None => store.clone(),
                Some(model) => WorkerStatus {
                    started_at: offset.to_model(store.started_at, model.started_at),
                    heartbeat_at: offset.to_model(store.heartbeat_at, model.heartbeat_at),
                    heartbeat_age: snap_to_model(store.heartbeat_age, model.heartbeat_age),
                    ..store.clone()
                },
            })
            .collect();
        self.tally.add("listed workers", model.len());
        compare("the list of workers", &model, &converted)
    }
}

fn worker_id(name: &str) -> WorkerId {
    WorkerId::new(name).expect("visible ASCII")
}

/// Checks that points begin at multiples of the step, in time order.
fn check_steps(history: &History) -> ComparisonResult {
    let step_us = i64::from(history.step_seconds) * 1_000_000;
    let is_aligned = history.points.iter().all(|point| point.at.as_micros() % step_us == 0);
    let is_rising = history.points.windows(2).all(|pair| pair[0].at < pair[1].at);
    if is_aligned && is_rising {
        return Ok(());
    }
    Err(Difference::new(format!(
        "the points of a history are not multiples of its step in order: {history:?}"
    )))
}

/// Adds up points that begin at most `gap` seconds apart.
fn merge_neighbours(history: &History, gap: i64) -> Vec<ActivityBucket> {
    let mut merged: Vec<ActivityBucket> = Vec::new();
    let mut last_at = None;
    for point in &history.points {
        let is_neighbour = last_at.is_some_and(|last: posthaste_domain::Timestamp| {
            (point.at.as_micros() - last.as_micros()) / 1_000_000 <= gap
        });
        last_at = Some(point.at);
        match merged.last_mut().filter(|_| is_neighbour) {
            None => merged.push(point.clone()),
            Some(sum) => {
                sum.counts.add(&point.counts);
                (sum.pending, sum.dead_letters) = (point.pending, point.dead_letters);
            }
        }
    }
    merged
}
