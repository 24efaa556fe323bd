//! Batches that the store has not answered yet and that are tried again, as others see them.

use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct Retries {
    under_way: AtomicUsize,
    /// Answers that did not end them.
    failures: AtomicUsize,
    changed: Notify,
    hurry: Notify,
}

impl Retries {
    /// A batch is tried again from here until the returned value is dropped.
    pub(super) fn begin(&self) -> Retry<'_> {
        self.under_way.fetch_add(1, Ordering::SeqCst);
        Retry(self)
    }

    /// Resolves when a batch should not wait any longer before it is tried again.
    pub(super) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    /// Has every batch that waits try now. Resolves when none is left, or when each has failed once more: then the
    /// store is still away.
    pub(super) async fn catch_up(&self) {
        let failures = || self.failures.load(Ordering::SeqCst);
        let under_way = || self.under_way.load(Ordering::SeqCst);
        let enough = failures().saturating_add(under_way());
        self.hurry.notify_waiters();
        loop {
            // Waiting begins before the counts are read, so that no change falls between the two.
            let changed = self.changed.notified();
            if under_way() == 0 || failures() >= enough {
                return;
            }
            changed.await;
        }
    }
}

pub(super) struct Retry<'a>(&'a Retries);

impl Retry<'_> {
    pub(super) fn failed(&self) {
        self.0.failures.fetch_add(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}

impl Drop for Retry<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::SeqCst);
        self.0.changed.notify_waiters();
    }
}
