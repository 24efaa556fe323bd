//! Count of results that are not written yet, with the signals between the settler and the claimer.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

/// Counts the results that are submitted but not yet written, and lets the claimer request an immediate retry.
#[derive(Default)]
pub(super) struct Backlog {
    pending: AtomicUsize,
    /// Settle calls that the store did not answer, since the start.
    failures: AtomicUsize,
    /// Set by an unanswered call, cleared when no result is pending.
    is_behind: AtomicBool,
    changed: Notify,
    retry_now: Notify,
}

impl Backlog {
    /// Counts a result as pending until the returned guard is dropped.
    pub(super) fn add(&self) -> PendingResult<'_> {
        self.pending.fetch_add(1, Ordering::SeqCst);
        PendingResult(self)
    }

    /// Records a settle call that the store did not answer.
    pub(super) fn record_failure(&self) {
        self.is_behind.store(true, Ordering::SeqCst);
        self.failures.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Resolves when [`catch_up`](Self::catch_up) requests an immediate retry of the batches in backoff.
    pub(super) async fn retry_requested(&self) {
        self.retry_now.notified().await;
    }

    /// Makes every batch in backoff retry at once, and waits for the result.
    ///
    /// Resolves immediately if no settle call has failed since the backlog was last empty. Otherwise resolves when the
    /// backlog is empty, or when another call has failed, which means that the store is still unavailable.
    pub(super) async fn catch_up(&self) {
        let failures = self.failures.load(Ordering::SeqCst);
        self.retry_now.notify_waiters();
        loop {
            // Register for the notification before reading the state, so that no change is missed in between.
            let changed = self.changed.notified();
            let failed_again = self.failures.load(Ordering::SeqCst) != failures;
            if failed_again || !self.is_behind.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }
}

/// Guard of one pending result. Dropping it removes the result from the count.
pub(super) struct PendingResult<'a>(&'a Backlog);

impl Drop for PendingResult<'_> {
    fn drop(&mut self) {
        if self.0.pending.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.is_behind.store(false, Ordering::SeqCst);
        }
        self.0.changed.notify_waiters();
    }
}
