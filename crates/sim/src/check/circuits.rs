//! Checks of circuits: only a success of the receiver and an operator's resume close one. A probe for which an operator asks does
//! not.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DestinationId, LeaseToken, Outcome, ReceiverHealth, Timestamp, WorkerId};
use posthaste_store::CircuitReport;

use super::{Checker, require};
use crate::process::Process;

/// How precisely the opening of a circuit is known from a report, which may be delayed.
const REPORT_PRECISION: Duration = Duration::from_secs(60);
/// A worker may forget a circuit whose destination got no event for so long.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(30 * 60);

/// The circuits that workers have reported, and what may close them. Times are those since the start of the simulation.
#[derive(Default)]
pub(super) struct CircuitModel {
    open: BTreeMap<(WorkerId, DestinationId), ReportedCircuit>,
    /// The last request of each worker that a destination answered with success.
    succeeded: BTreeMap<(WorkerId, DestinationId), Duration>,
    /// The last resume of each destination.
    resumed: BTreeMap<DestinationId, Duration>,
}

struct ReportedCircuit {
    process: Arc<Process>,
    opened_at: Duration,
    reported_at: Timestamp,
}

impl CircuitModel {
    pub(super) fn record_resume(&mut self, destination: DestinationId, now: Duration) {
        self.resumed.insert(destination, now);
    }

    /// Returns whether something other than a success may have closed a circuit of this worker.
    fn may_have_closed(&self, of: &(WorkerId, DestinationId), open: &ReportedCircuit, now: Duration) -> bool {
        let opened_at = open.opened_at.saturating_sub(REPORT_PRECISION);
        self.succeeded.get(of).is_some_and(|at| *at >= opened_at)
            || self.resumed.get(&of.1).is_some_and(|at| *at >= opened_at)
            || now.saturating_sub(open.opened_at) > FORGOTTEN_AFTER
            || !open.process.is_undisturbed_since(open.reported_at)
            || !open.process.has_exact_clock()
    }
}

impl Checker {
    /// Records the answer to a request of the process that holds the lease.
    pub(super) fn record_health(&self, token: LeaseToken, destination: DestinationId, outcome: &Outcome) {
        let now = self.clock.elapsed();
        let mut model = self.model();
        if outcome.health() == ReceiverHealth::Healthy
            && let Some(holder) = model.holders.get(&token)
        {
            let worker = holder.worker_id.clone();
            model.circuits.succeeded.insert((worker, destination), now);
        }
    }

    /// A worker whose circuit was open reports it as closed, or as opened later, only after a success or a resume.
    pub(crate) fn check_closed_circuits(&self, process: &Arc<Process>, reports: &[CircuitReport]) {
        let (now, timestamp) = (self.clock.elapsed(), self.clock.timestamp());
        let mut model = self.model();
        let mut result = Ok(());
        for report in reports {
            let of = (process.worker_id.clone(), report.destination);
            let opened_at = report.open.as_ref().map(|open| now.saturating_sub(open.open_for));
            let before = model.circuits.open.remove(&of).filter(|it| Arc::ptr_eq(&it.process, process));
            if let Some(before) = before {
                let has_closed = opened_at.is_none_or(|at| at > before.opened_at + REPORT_PRECISION);
                let is_allowed = !has_closed || model.circuits.may_have_closed(&of, &before, now);
                result = result.and_then(|()| {
                    require!(
                        "probe",
                        is_allowed,
                        "{} closed its circuit of {} without a success or a resume",
                        process.worker_id,
                        report.destination
                    );
                    Ok(())
                });
            }
            if let Some(opened_at) = opened_at {
                let process = Arc::clone(process);
                model
                    .circuits
                    .open
                    .insert(of, ReportedCircuit { process, opened_at, reported_at: timestamp });
            }
        }
        self.record_result(model, result);
    }
}
