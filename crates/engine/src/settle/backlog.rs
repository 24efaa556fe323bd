//! The results that are not written yet, and what keeps the store from writing them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use posthaste_store::{LeaseRef, StoreError};
use tokio::sync::Notify;

/// Age from which a result without an answer of the store counts as overdue.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);
/// The least time between two log lines about writes that fail.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

/// The results that are submitted but not written. The settler fills it; the claimer waits until it is in order.
#[derive(Default)]
pub(super) struct Backlog {
    state: Mutex<State>,
    changed: Notify,
    last_try: Notify,
}

#[derive(Default)]
struct State {
    next_number: u64,
    /// Results that wait for the store, with the time at which each was submitted. Ordered by submission.
    waiting: BTreeMap<u64, Duration>,
    /// Results that the store refuses although it accepts other writes.
    quarantined: usize,
    /// Batches and trial writes whose last try failed.
    failing: usize,
    failure: Option<WriteFailure>,
    /// When a failure was last logged; none since the last recovery.
    logged_at: Option<Duration>,
    is_last_try: bool,
    /// Leases of results that were given up at the end of a drain.
    given_up: Vec<LeaseRef>,
}

/// Why the store writes no results.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WriteFailure {
    /// The error of the last try; none if the store has not answered yet.
    pub error: Option<StoreError>,
    /// Results that wait to be written.
    pub waiting: usize,
}

impl Backlog {
    /// Counts a result as waiting until the returned guard is dropped.
    pub(super) fn add(self: &Arc<Self>, now: Duration) -> WaitingResult {
        let mut state = self.state();
        let number = state.next_number;
        state.next_number += 1;
        state.waiting.insert(number, now);
        WaitingResult { backlog: Arc::clone(self), number, is_quarantined: false }
    }

    /// Counts a series of failing tries until the returned guard is dropped.
    pub(super) fn start_failing(self: &Arc<Self>) -> FailingWrites {
        self.state().failing += 1;
        FailingWrites(Arc::clone(self))
    }

    /// Returns the number of results that are not written.
    pub(super) fn unwritten(&self) -> usize {
        let state = self.state();
        state.waiting.len() + state.quarantined
    }

    /// Returns the number of results that the store has refused or has not answered in time.
    pub(super) fn delayed(&self, now: Duration) -> usize {
        let state = self.state();
        let is_delayed = |submitted: &Duration| state.failing > 0 || *submitted + OVERDUE_AFTER <= now;
        state.quarantined + state.waiting.values().filter(|submitted| is_delayed(submitted)).count()
    }

    /// Returns why results cannot be written, if one was refused or is overdue.
    pub(super) fn failure(&self, now: Duration) -> Option<WriteFailure> {
        let state = self.state();
        let waiting = state.waiting.len();
        if state.failing > 0 {
            return state.failure.clone().map(|failure| WriteFailure { waiting, ..failure });
        }
        let oldest = state.waiting.values().next()?;
        (*oldest + OVERDUE_AFTER <= now).then_some(WriteFailure { error: None, waiting })
    }

    /// Resolves when no result has been refused or is overdue.
    pub(super) async fn in_order(&self, now: impl Fn() -> Duration) {
        loop {
            // Register for the notification before reading the state, so that no change is missed in between.
            let changed = self.changed.notified();
            if self.failure(now()).is_none() {
                return;
            }
            changed.await;
        }
    }

    /// Resolves when no result waits.
    pub(super) async fn empty(&self) {
        loop {
            let changed = self.changed.notified();
            if self.unwritten() == 0 {
                return;
            }
            changed.await;
        }
    }

    /// Keeps the lease of a result that is given up.
    pub(super) fn give_up(&self, lease: LeaseRef) {
        self.state().given_up.push(lease);
    }

    /// Returns the number of results that were given up and whose leases have not been taken.
    pub(super) fn given_up(&self) -> usize {
        self.state().given_up.len()
    }

    /// Takes the leases of results that were given up.
    pub(super) fn take_given_up(&self) -> Vec<LeaseRef> {
        std::mem::take(&mut self.state().given_up)
    }

    /// Ends the retries: every batch is tried once more at once, and then given up.
    pub(super) fn start_last_try(&self) {
        self.state().is_last_try = true;
        self.last_try.notify_waiters();
    }

    pub(super) fn is_last_try(&self) -> bool {
        self.state().is_last_try
    }

    /// Resolves when the last try begins.
    pub(super) async fn last_try(&self) {
        loop {
            let started = self.last_try.notified();
            if self.is_last_try() {
                return;
            }
            started.await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Guard of one result that is not written. Dropping it removes the result from the backlog.
pub(super) struct WaitingResult {
    backlog: Arc<Backlog>,
    number: u64,
    is_quarantined: bool,
}

impl WaitingResult {
    /// Counts the result as refused for reasons of its own: it does not keep the worker from claiming. Returns false if it
    /// was counted before.
    pub(super) fn quarantine(&mut self) -> bool {
        if std::mem::replace(&mut self.is_quarantined, true) {
            return false;
        }
        {
            let mut state = self.backlog.state();
            state.waiting.remove(&self.number);
            state.quarantined += 1;
        }
        self.backlog.changed.notify_waiters();
        true
    }
}

impl Drop for WaitingResult {
    fn drop(&mut self) {
        {
            let mut state = self.backlog.state();
            if self.is_quarantined {
                state.quarantined -= 1;
            } else {
                state.waiting.remove(&self.number);
            }
        }
        self.backlog.changed.notify_waiters();
    }
}

/// Guard of writes that fail. Dropping it says that they succeed again, or are given up.
pub(super) struct FailingWrites(Arc<Backlog>);

impl FailingWrites {
    /// Records the error of a try.
    pub(super) fn record(&self, error: &StoreError) {
        self.0.state().failure = Some(WriteFailure { error: Some(error.clone()), waiting: 0 });
    }

    /// Returns true if a log line is due: for the first failure, and then once a minute.
    pub(super) fn take_log_turn(&self, now: Duration) -> bool {
        let mut state = self.0.state();
        let is_due = state.logged_at.is_none_or(|logged_at| logged_at + LOG_INTERVAL <= now);
        if is_due {
            state.logged_at = Some(now);
        }
        is_due
    }
}

impl Drop for FailingWrites {
    fn drop(&mut self) {
        {
            let mut state = self.0.state();
            state.failing -= 1;
            if state.failing == 0 {
                state.failure = None;
                if state.logged_at.take().is_some() && !state.is_last_try {
                    tracing::info!("results can be written again");
                }
            }
        }
        self.0.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn refusal() -> StoreError {
        StoreError::Rejected { reason: "permission denied".to_owned() }
    }

    #[test]
    fn a_result_without_an_answer_is_overdue_after_five_seconds() {
        let backlog = Arc::new(Backlog::default());
        let first = backlog.add(secs(1));
        let _second = backlog.add(secs(4));
        assert_eq!(backlog.failure(secs(5)), None);
        assert_eq!(backlog.failure(secs(6)), Some(WriteFailure { error: None, waiting: 2 }));
        assert_eq!((backlog.delayed(secs(5)), backlog.delayed(secs(6)), backlog.unwritten()), (0, 1, 2));
        drop(first);
        assert_eq!(backlog.failure(secs(8)), None);
        assert_eq!(backlog.unwritten(), 1);
    }

    #[test]
    fn a_failure_lasts_until_all_failing_writes_have_ended_and_is_logged_once_a_minute() {
        let backlog = Arc::new(Backlog::default());
        let _result = backlog.add(secs(0));
        let (one, other) = (backlog.start_failing(), backlog.start_failing());
        one.record(&refusal());
        let logged = [0, 1, 59, 60, 61, 120].map(|at| one.take_log_turn(secs(at)));
        assert_eq!(logged, [true, false, false, true, false, true]);
        drop(one);
        assert_eq!(backlog.failure(secs(1)).unwrap().error, Some(refusal()));
        drop(other);
        assert_eq!(backlog.failure(secs(1)), None);
    }

    #[test]
    fn a_quarantined_result_is_unwritten_but_not_overdue() {
        let backlog = Arc::new(Backlog::default());
        let mut result = backlog.add(secs(0));
        assert!(result.quarantine() && !result.quarantine());
        assert_eq!((backlog.failure(secs(60)), backlog.unwritten(), backlog.delayed(secs(0))), (None, 1, 1));
        drop(result);
        assert_eq!(backlog.unwritten(), 0);
    }
}
