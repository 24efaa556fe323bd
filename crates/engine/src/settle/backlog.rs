//! Results that the store has not answered for yet, as others see them.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Notify;

#[derive(Default)]
pub(super) struct Backlog {
    unanswered: AtomicUsize,
    /// Calls that got no answer.
    failures: AtomicUsize,
    /// Since a call got no answer, there has been no moment without unanswered results.
    behind: AtomicBool,
    changed: Notify,
    hurry: Notify,
}

impl Backlog {
    /// A result waits to be written from here until the returned value is dropped.
    pub(super) fn wait(&self) -> Unanswered<'_> {
        self.unanswered.fetch_add(1, Ordering::SeqCst);
        Unanswered(self)
    }

    pub(super) fn failed(&self) {
        self.behind.store(true, Ordering::SeqCst);
        self.failures.fetch_add(1, Ordering::SeqCst);
        self.changed.notify_waiters();
    }

    /// Resolves when a batch should not wait any longer before it is tried again.
    pub(super) async fn hurried(&self) {
        self.hurry.notified().await;
    }

    /// Has every batch that waits try now. Resolves at once where nothing is behind; else when nothing is unanswered
    /// any more, or when one has failed again: then the store is still away.
    pub(super) async fn catch_up(&self) {
        let failures = self.failures.load(Ordering::SeqCst);
        self.hurry.notify_waiters();
        loop {
            // Waiting begins before the state is read, so that no change falls between the two.
            let changed = self.changed.notified();
            let still_away = self.failures.load(Ordering::SeqCst) != failures;
            if still_away || !self.behind.load(Ordering::SeqCst) {
                return;
            }
            changed.await;
        }
    }
}

pub(super) struct Unanswered<'a>(&'a Backlog);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if self.0.unanswered.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.0.behind.store(false, Ordering::SeqCst);
        }
        self.0.changed.notify_waiters();
    }
}
