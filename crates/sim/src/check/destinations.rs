//! Checks of destinations: operators' pauses hold events, and a resume closes circuits.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::CircuitReport;

use super::{Checker, Model, Pause, require};
use crate::process::Process;

/// How precisely the opening of a circuit is known from a report.
const REPORT_PRECISION: Duration = Duration::from_secs(5);

impl Model {
    /// Returns when the last known pause of a destination ends or ended.
    pub(super) fn paused_until(&self, destination: DestinationId) -> Option<Timestamp> {
        let by_receiver = self.paused.get(&destination).map(|pause| pause.until);
        by_receiver.max(self.operator_paused.get(&destination).map(|pause| pause.until))
    }
}

impl Checker {
    /// Records an operator's pause; `claims` checks that all workers respect it.
    pub(crate) fn record_operator_pause(&self, destination: DestinationId, duration: Option<Duration>) {
        let at = self.clock.timestamp();
        let pause = Pause { at, until: at.after(duration.unwrap_or(Duration::MAX)) };
        self.model().operator_paused.insert(destination, pause);
    }

    /// Records a resume, which ends the pauses of operators and of receivers.
    pub(crate) fn record_resume(&self, destination: DestinationId) {
        let now = self.clock.timestamp();
        let mut model = self.model();
        model.operator_paused.remove(&destination);
        model.paused.remove(&destination);
        model.resumed.insert(destination, now);
        model.circuits.record_resume(destination, self.clock.elapsed());
    }

    /// A resume closes the circuits of all workers: no worker reports a circuit that opened before the resume, once it has
    /// had the time for a claim. A worker that cannot write its results claims nothing.
    pub(crate) fn check_circuits_after_resume(&self, process: &Arc<Process>, reports: &[CircuitReport]) {
        let now = self.clock.timestamp();
        let settings = &self.scenario.settings;
        // A worker without a free slot claims when a request has ended.
        let time_to_claim = settings.timeout + settings.poll_interval * 2 + Duration::from_secs(30);
        let model = self.model();
        let result = (|| {
            for report in reports {
                let (Some(open), Some(resumed_at)) = (&report.open, model.resumed.get(&report.destination))
                else {
                    continue;
                };
                let opened_before = now.before(open.open_for).after(REPORT_PRECISION) < *resumed_at;
                let had_time = now.since(*resumed_at).min(process.claiming_for()) > time_to_claim;
                let disturbed = !process.is_undisturbed_since(*resumed_at) || !process.has_exact_clock();
                require!(
                    "resume",
                    !opened_before || !had_time || disturbed,
                    "{} holds the circuit of {} open, which was resumed {:?} ago",
                    process.worker_id,
                    report.destination,
                    now.since(*resumed_at)
                );
            }
            Ok(())
        })();
        self.record_result(model, result);
    }
}
