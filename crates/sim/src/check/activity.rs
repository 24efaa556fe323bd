//! Property "activity": the history adds up to what the workers reported, each report counted once, and never to more than they
//! wrote.
//!
//! - A report has exactly the results that its process has learned since the report before. A process repeats a report that got
//!   no answer, with the same number and the same counts.
//! - Of the reports that arrive, the store adds the first of each number to one bucket of each length, and changes no other.
//! - The reports of a process never add up to more results than it wrote. Those of a process that runs until the end add up to
//!   all that it delivered and retried.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_domain::{Timestamp, WorkerId};
use posthaste_store::{AHEAD_MAX, ActivityCounts, ActivityReport, Resolution};
use posthaste_store_memory::State;

use super::{CheckResult, Checker, require};
use crate::activity_log::ResultCounts;
use crate::process::Process;

/// The history as it must be, and what each process wrote and reported of it.
#[derive(Default)]
pub(super) struct ActivityModel {
    buckets: BTreeMap<(Resolution, Timestamp), ActivityCounts>,
    processes: BTreeMap<WorkerId, ProcessCounts>,
}

#[derive(Debug, Clone, Copy, Default)]
struct ProcessCounts {
    /// The number of the last report that the store has applied, unless the process has stopped.
    last_sequence: u64,
    /// The sum of the applied reports.
    applied: ResultCounts,
    /// The results that the store has written for the process.
    written: ResultCounts,
}

impl Checker {
    /// Records results that the store has written for a process.
    pub(super) fn record_written(&self, process: &Process, counts: ResultCounts) {
        self.model().activity.of(process).written.add(counts);
    }

    /// Checks a report when a process makes it, before any fault.
    pub(crate) fn check_report(&self, process: &Process, report: &ActivityReport) {
        if let Err(detail) = process.record_report(report) {
            self.report_violation("activity", format!("{}: {detail}", process.worker_id));
        }
    }

    /// Checks what a report that has arrived has changed.
    pub(super) fn check_applied_report(&self, process: &Process, report: &ActivityReport) {
        let (now, mut model) = (self.clock.timestamp(), self.model());
        let is_new = report.sequence > model.activity.of(process).last_sequence;
        if is_new {
            model.counts.reports += 1;
            model.activity.add(process, report, now);
        } else {
            model.counts.repeated_reports += 1;
        }
        let counts = *model.activity.of(process);
        let result = self.memory.with_state(|state| {
            model.activity.check_buckets(state, now)?;
            let ProcessCounts { applied, written, .. } = counts;
            let id = &process.worker_id;
            require!(
                "activity",
                applied.is_within(written),
                "{id} reported {applied:?} and wrote {written:?}"
            );
            Ok(())
        });
        self.record_result(model, result);
    }

    /// Checks that the processes that run until the end have reported all deliveries and retries that they wrote. They may report
    /// fewer events as failed: if the reply to a claim or an expiry is lost, no process learns which events it has dead-lettered.
    /// The same holds for retries if events were discarded: a repeated settlement of such an event is stale.
    pub(crate) fn check_all_reported(&self, processes: &[Arc<Process>]) {
        let mut model = self.model();
        let result = processes.iter().filter(|process| process.has_reported_all()).try_for_each(|process| {
            let ProcessCounts { applied, written, .. } = *model.activity.of(process);
            model.counts.complete_reporters += 1;
            let has_retries = applied.retried == written.retried || model.counts.discarded > 0;
            let has_all = applied.delivered == written.delivered && has_retries;
            let id = &process.worker_id;
            require!("activity", has_all, "{id} wrote {written:?}, but the store has reports of {applied:?}");
            Ok(())
        });
        self.record_result(model, result);
    }
}

impl ActivityModel {
    fn of(&mut self, process: &Process) -> &mut ProcessCounts {
        self.processes.entry(process.start_id()).or_default()
    }

    fn add(&mut self, process: &Process, report: &ActivityReport, now: Timestamp) {
        for resolution in Resolution::ALL {
            let step_us = i64::from(resolution.step_seconds()) * 1_000_000;
            let at = Timestamp::from_micros(now.as_micros().div_euclid(step_us) * step_us);
            self.buckets.entry((resolution, at)).or_default().add(&report.counts);
        }
        let counts = self.of(process);
        counts.applied.add(ResultCounts::of_report(report));
        counts.last_sequence = if report.is_last { 0 } else { report.sequence };
    }

    /// Compares the buckets. Those that are too old, or begin in the future after the clock has stepped back, may be gone.
    fn check_buckets(&mut self, state: &State, now: Timestamp) -> CheckResult {
        let stored = &state.activity.buckets;
        let may_be_gone = |(resolution, at): &(Resolution, Timestamp)| {
            at.since(now) > AHEAD_MAX || now.since(*at) > resolution.kept_for()
        };
        self.buckets.retain(|key, _| stored.contains_key(key) || !may_be_gone(key));
        for (key, expected) in &self.buckets {
            let counts = stored.get(key).map(|bucket| bucket.counts);
            require!(
                "activity",
                counts == Some(*expected),
                "the bucket {key:?} has {counts:?}, not {expected:?}"
            );
        }
        let unexpected = stored.keys().find(|key| !self.buckets.contains_key(key));
        require!("activity", unexpected.is_none(), "no report explains the bucket {unexpected:?}");
        Ok(())
    }
}
