//! What one process has learned of its results, and what it has reported of them, as seen between the process and its store.

use std::time::Duration;

use posthaste_domain::Decision;
use posthaste_store::{ActivityReport, SettleResult, Settlement};

/// Numbers of results.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ResultCounts {
    pub(crate) delivered: u64,
    pub(crate) retried: u64,
    pub(crate) failed: u64,
}

impl ResultCounts {
    /// Returns the counts of a report.
    pub(crate) const fn of_report(report: &ActivityReport) -> Self {
        let counts = &report.counts;
        Self { delivered: counts.delivered, retried: counts.retried, failed: counts.failed }
    }

    /// Returns the counts of those settlements whose result in the store is wanted.
    pub(crate) fn of_settlements(
        batch: &[Settlement],
        settled: &[SettleResult],
        is_wanted: impl Fn(SettleResult) -> bool,
    ) -> Self {
        let mut counts = Self::default();
        for (settlement, _) in batch.iter().zip(settled).filter(|(_, settled)| is_wanted(**settled)) {
            *match settlement.transition.decision() {
                Decision::Delivered => &mut counts.delivered,
                Decision::Retry { .. } => &mut counts.retried,
                Decision::Failed(_) => &mut counts.failed,
            } += 1;
        }
        counts
    }

    /// Returns the counts of events that were dead-lettered without an attempt.
    pub(crate) fn of_failed(events: usize) -> Self {
        Self { failed: events as u64, ..Self::default() }
    }

    pub(crate) const fn add(&mut self, other: Self) {
        self.delivered += other.delivered;
        self.retried += other.retried;
        self.failed += other.failed;
    }

    /// Returns whether no count is above the other's.
    pub(crate) const fn is_within(self, other: Self) -> bool {
        self.delivered <= other.delivered && self.retried <= other.retried && self.failed <= other.failed
    }

    pub(crate) const fn is_zero(self) -> bool {
        self.delivered + self.retried + self.failed == 0
    }
}

/// The results that a process has learned, and its reports.
#[derive(Debug, Default)]
pub(crate) struct ActivityLog {
    learned: ResultCounts,
    /// What the process had learned before `learned_at`, the time at which it learned the latest results.
    learned_before: ResultCounts,
    learned_at: Duration,
    /// The sum of all reports, each counted once.
    reported: ResultCounts,
    last: Option<LastReport>,
}

#[derive(Debug, Clone)]
struct LastReport {
    report: ActivityReport,
    is_confirmed: bool,
    /// When the process first made the report.
    made_at: Duration,
}

impl ActivityLog {
    /// Records results that the store has confirmed to the process.
    pub(crate) fn learn(&mut self, counts: ResultCounts, now: Duration) {
        if counts.is_zero() {
            return;
        }
        if now > self.learned_at {
            (self.learned_before, self.learned_at) = (self.learned, now);
        }
        self.learned.add(counts);
    }

    /// Records a report that the process makes. Returns what is wrong with it: it must repeat an unanswered one, or have the next
    /// number and all results that the process has learned since. A process that drains may end before it has counted all.
    pub(crate) fn report(
        &mut self,
        report: &ActivityReport,
        now: Duration,
        is_draining: bool,
    ) -> Result<(), String> {
        if let Some(last) = self.last.as_ref().filter(|last| !last.is_confirmed) {
            let is_repeated =
                (last.report.sequence, &last.report.counts) == (report.sequence, &report.counts);
            let (number, unanswered) = (report.sequence, last.report.sequence);
            return if is_repeated {
                Ok(())
            } else {
                Err(format!(
                    "report {number} follows the unanswered report {unanswered} instead of repeating it"
                ))
            };
        }
        let expected = self.last.as_ref().map_or(1, |last| last.report.sequence + 1);
        if report.sequence != expected {
            return Err(format!("a report has the number {} instead of {expected}", report.sequence));
        }
        self.reported.add(ResultCounts::of_report(report));
        self.last = Some(LastReport { report: report.clone(), is_confirmed: false, made_at: now });
        let learned_before = if self.learned_at < now { self.learned } else { self.learned_before };
        let (reported, learned) = (self.reported, self.learned);
        if reported.is_within(learned) && (is_draining || learned_before.is_within(reported)) {
            return Ok(());
        }
        Err(format!("the reports add up to {reported:?}, but the process has learned {learned:?}"))
    }

    /// Records that the store has confirmed the last report.
    pub(crate) fn confirm(&mut self) {
        if let Some(last) = &mut self.last {
            last.is_confirmed = true;
        }
    }

    /// Returns the last report, if a repetition of it does no harm: a store forgets a worker that has stopped.
    pub(crate) fn repeatable_report(&self) -> Option<ActivityReport> {
        let last = self.last.as_ref().filter(|last| last.is_confirmed && !last.report.is_last);
        last.map(|last| last.report.clone())
    }

    /// Returns whether a report was made and confirmed after the process learned its latest result.
    pub(crate) fn is_complete(&self) -> bool {
        self.last.as_ref().is_some_and(|last| last.is_confirmed && last.made_at > self.learned_at)
    }
}

#[cfg(test)]
mod tests {
    use posthaste_domain::WorkerId;
    use posthaste_store::ActivityCounts;

    use super::*;

    fn report(sequence: u64, delivered: u64) -> ActivityReport {
        ActivityReport {
            process: WorkerId::new("process").unwrap(),
            worker: WorkerId::new("worker").unwrap(),
            version: String::new(),
            running_for: Duration::ZERO,
            in_flight: 0,
            sequence,
            is_last: false,
            counts: ActivityCounts { delivered, ..ActivityCounts::default() },
            receivers: Vec::new(),
        }
    }

    fn log_with_one_delivery() -> ActivityLog {
        let mut log = ActivityLog::default();
        log.learn(ResultCounts { delivered: 1, ..ResultCounts::default() }, Duration::from_secs(1));
        log
    }

    #[test]
    fn a_report_has_all_results_that_were_learned_before_it() {
        let now = Duration::from_secs(2);
        assert!(log_with_one_delivery().report(&report(1, 1), now, false).is_ok());
        assert!(log_with_one_delivery().report(&report(1, 0), now, false).is_err());
        assert!(log_with_one_delivery().report(&report(1, 2), now, false).is_err());
        assert!(log_with_one_delivery().report(&report(1, 0), Duration::from_secs(1), false).is_ok());
    }

    #[test]
    fn an_unanswered_report_is_repeated_until_it_is_confirmed() {
        let (mut log, now) = (log_with_one_delivery(), Duration::from_secs(2));
        log.report(&report(1, 1), now, false).unwrap();
        assert!(log.report(&report(2, 0), now, false).is_err());
        assert!(log.report(&report(1, 0), now, false).is_err());
        log.report(&report(1, 1), now, false).unwrap();
        assert!(!log.is_complete());
        log.confirm();
        assert!(log.is_complete());
        assert!(log.report(&report(1, 1), now, false).is_err());
        log.report(&report(2, 0), now, false).unwrap();
    }
}
