//! Counts what a worker does and reports it, cycle by cycle.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_domain::{CycleReport, Transition, WorkerId};
use posthaste_store::{Claimed, Settled};

use crate::worker::Worker;

pub(crate) struct Cycle {
    current: Mutex<Current>,
}

struct Current {
    report: CycleReport,
    began_at: Duration,
}

impl Cycle {
    pub(crate) fn new(now: Duration) -> Self {
        Self { current: Mutex::new(Current { report: CycleReport::default(), began_at: now }) }
    }

    pub(crate) fn claimed(&self, claimed: &Claimed) {
        let report = &mut self.current().report;
        report.claimed_count += u64::try_from(claimed.leases.len()).unwrap_or(u64::MAX);
        report.failed_count += u64::try_from(claimed.abandoned.len()).unwrap_or(u64::MAX);
    }

    pub(crate) fn count(&self, transition: &Transition, settled: Option<Settled>) {
        let report = &mut self.current().report;
        report.count_outcome(transition);
        match settled {
            Some(settled) if settled.is_written() => report.count_written(transition),
            Some(_) => report.stale_write_count += 1,
            None => {}
        }
    }

    /// Ends the cycle and begins the next.
    pub(crate) fn end(&self, now: Duration) -> CycleReport {
        let mut current = self.current();
        let mut report = std::mem::take(&mut current.report);
        report.lasted(now.saturating_sub(current.began_at));
        current.began_at = now;
        report
    }

    fn current(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) async fn run(worker: Arc<Worker>) {
    loop {
        worker.ports.clock.sleep(worker.settings.cycle).await;
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
