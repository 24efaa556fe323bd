//! The queue of submitted results. It wakes the settle loop for the first result and for a full batch, not for each result:
//! waking a task costs about as much as a result.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::{BATCH_FULL, BATCH_MAX, PendingSettle};

#[derive(Default)]
pub(super) struct ResultQueue {
    results: Mutex<Vec<PendingSettle>>,
    filled: Notify,
}

impl ResultQueue {
    pub(super) fn push(&self, result: PendingSettle) {
        let mut results = self.lock();
        results.push(result);
        let len = results.len();
        drop(results);
        if len == 1 || len == BATCH_FULL {
            self.filled.notify_one();
        }
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// Removes the oldest results, up to [`BATCH_MAX`].
    pub(super) fn take_batch(&self) -> Vec<PendingSettle> {
        let mut results = self.lock();
        let taken = results.len().min(BATCH_MAX);
        let rest = results.split_off(taken);
        std::mem::replace(&mut *results, rest)
    }

    /// Resolves when the queue has got its first result or those of a full batch, perhaps without cause.
    pub(super) async fn filled(&self) {
        self.filled.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<PendingSettle>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
