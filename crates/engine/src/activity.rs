//! The loop that reports to the store what the worker did and that it is alive. Charts and the list of workers come from these
//! reports.
//!
//! A report that got no answer is repeated with the same number and the same counts, so that the store counts it once.
//! Meanwhile new counts add up for the report after it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{Decision, Transition};
use posthaste_store::{ActivityCounts, ActivityReport, RECEIVERS_REPORTED_MAX, SettleResult};

use crate::clock::within;
use crate::supervise::catch_store_panic;
use crate::worker::Worker;

/// Time between two reports.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Upper bound of the time that the last report of a worker may take.
const LAST_REPORT_TIME_MAX: Duration = Duration::from_secs(2);

/// Counts of the worker that the store does not have yet.
pub(crate) struct ActivityCounters {
    /// When the worker started, by its own clock.
    started_at: Duration,
    state: Mutex<CounterState>,
}

#[derive(Default)]
struct CounterState {
    /// What happened since the last report was made.
    current: ActivityCounts,
    /// The number of the last report.
    last_sequence: u64,
    /// The counts of the last report, until the store has confirmed it.
    unconfirmed: Option<ActivityCounts>,
}

impl ActivityCounters {
    pub(crate) fn new(now: Duration) -> Self {
        Self { started_at: now, state: Mutex::default() }
    }

    /// Counts one attempt: its duration, and its result if the store has written it.
    pub(crate) fn count_attempt(&self, transition: &Transition, settled: Option<SettleResult>) {
        let current = &mut self.state().current;
        current.latency.record(transition.duration());
        if settled.is_some_and(SettleResult::is_written) {
            *match transition.decision() {
                Decision::Delivered => &mut current.delivered,
                Decision::Retry { .. } => &mut current.retried,
                Decision::Failed(_) => &mut current.failed,
            } += 1;
        }
    }

    /// Counts events that were dead-lettered without an attempt.
    pub(crate) fn count_failed(&self, events: usize) {
        self.state().current.failed += u64::try_from(events).unwrap_or(u64::MAX);
    }

    /// Returns number and counts of the next report: the unconfirmed one again, or a new one.
    fn next_report(&self) -> (u64, ActivityCounts) {
        let mut state = self.state();
        let counts = match state.unconfirmed {
            Some(counts) => counts,
            None => {
                state.last_sequence += 1;
                std::mem::take(&mut state.current)
            }
        };
        state.unconfirmed = Some(counts);
        (state.last_sequence, counts)
    }

    fn is_confirmed(&self) -> bool {
        self.state().unconfirmed.is_none()
    }

    /// Forgets the counts of the last report, because the store has them.
    fn confirm(&self) {
        self.state().unconfirmed = None;
    }

    fn state(&self) -> MutexGuard<'_, CounterState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports at the start and then every [`REPORT_INTERVAL`].
pub(crate) async fn run(worker: Arc<Worker>) {
    loop {
        let is_repetition = !worker.activity.is_confirmed();
        // After an outage, what happened during it follows at once.
        if report(&worker, false).await && is_repetition {
            report(&worker, false).await;
        }
        worker.ports.clock.sleep(REPORT_INTERVAL).await;
    }
}

/// Makes the last report of a worker that has stopped, within `time_max`. The caller has ended the loop.
pub(crate) async fn report_last(worker: &Worker, time_max: Duration) {
    let last = async {
        if worker.activity.is_confirmed() || report(worker, false).await {
            report(worker, true).await;
        }
    };
    if within(&*worker.ports.clock, time_max.min(LAST_REPORT_TIME_MAX), last).await.is_none() {
        tracing::debug!(worker_id = %worker.settings.worker_id, "the store did not answer the last report in time");
    }
}

/// Sends one report. Returns whether the store has confirmed it.
async fn report(worker: &Worker, is_last: bool) -> bool {
    let (sequence, counts) = worker.activity.next_report();
    let report = ActivityReport {
        process: worker.settings.lease_owner.clone(),
        worker: worker.settings.worker_id.clone(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        running_for: worker.ports.clock.monotonic().saturating_sub(worker.activity.started_at),
        in_flight: u64::try_from(worker.in_flight()).unwrap_or(u64::MAX),
        sequence,
        is_last,
        counts,
        receivers: worker.slots.receivers(RECEIVERS_REPORTED_MAX),
    };
    let reported = catch_store_panic(async { worker.ports.store.activity().report(&report).await }).await;
    match reported {
        Ok(()) => worker.activity.confirm(),
        Err(error) => tracing::debug!(worker_id = %worker.settings.worker_id, code = error.code(), %error,
            "activity not reported; trying again"),
    }
    worker.activity.is_confirmed()
}
