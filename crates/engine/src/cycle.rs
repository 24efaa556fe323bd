//! Counters of the current cycle, and the loop that logs them at the end of each cycle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{CycleReport, Transition, WorkerId};
use posthaste_store::SettleResult;

use crate::worker::Worker;

/// The counters of a worker's current cycle.
pub(crate) struct CycleCounters {
    current: Mutex<CurrentCycle>,
}

struct CurrentCycle {
    report: CycleReport,
    started_at: Duration,
}

impl CycleCounters {
    pub(crate) fn new(now: Duration) -> Self {
        Self { current: Mutex::new(CurrentCycle { report: CycleReport::default(), started_at: now }) }
    }

    /// Counts events that were claimed in order to be sent.
    pub(crate) fn count_claimed(&self, events: usize) {
        self.current().report.claimed_count += u64::try_from(events).unwrap_or(u64::MAX);
    }

    /// Counts events that ended without an attempt, because they were abandoned or have expired, as failed.
    pub(crate) fn count_failed(&self, events: usize) {
        self.current().report.failed_count += u64::try_from(events).unwrap_or(u64::MAX);
    }

    /// Counts one attempt. `settled` is none if the store refused to write the result.
    pub(crate) fn count_attempt(&self, transition: &Transition, settled: Option<SettleResult>) {
        let report = &mut self.current().report;
        report.count_outcome(transition);
        match settled {
            Some(settled) if settled.is_written() => report.count_written(transition),
            Some(_) => report.stale_write_count += 1,
            None => {}
        }
    }

    /// Ends the current cycle, returns its report and begins the next cycle.
    pub(crate) fn end(&self, now: Duration) -> CycleReport {
        let mut current = self.current();
        let mut report = std::mem::take(&mut current.report);
        report.set_duration(now.saturating_sub(current.started_at));
        current.started_at = now;
        report
    }

    fn current(&self) -> MutexGuard<'_, CurrentCycle> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a cycle every `cycle_interval` and logs its report.
pub(crate) async fn run(worker: Arc<Worker>) {
    loop {
        worker.ports.clock.sleep(worker.settings.cycle_interval).await;
        log(&worker.settings.worker_id, &worker.cycle.end(worker.ports.clock.monotonic()));
    }
}

pub(crate) fn log(worker_id: &WorkerId, report: &CycleReport) {
    tracing::info!(
        %worker_id,
        claimed_count = report.claimed_count,
        delivered_count = report.delivered_count,
        retried_count = report.retried_count,
        failed_count = report.failed_count,
        stale_write_count = report.stale_write_count,
        http_2xx_count = report.http_2xx_count,
        http_3xx_count = report.http_3xx_count,
        http_4xx_count = report.http_4xx_count,
        http_5xx_count = report.http_5xx_count,
        network_error_count = report.network_error_count,
        duration_ms = report.duration_ms,
        "dispatch cycle complete"
    );
}
