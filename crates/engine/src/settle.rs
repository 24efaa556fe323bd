//! The settler: groups results of finished attempts into batches and writes each batch in one commit.
//!
//! A result is kept until it is written, for as long as the process lives, also past the expiry of its lease: the token
//! decides whether it still applies (see [`lease_protocol`](crate::lease_protocol)). While a result is refused or
//! overdue, the worker claims nothing.
//!
//! A store that refuses a batch may refuse every write, or a single result of it. The settler finds out by splitting
//! the batch and, if no part is accepted, by a trial write. A result that is refused while other writes are accepted is
//! quarantined: it is retried rarely, its lease is renewed, and the worker continues to claim.

mod backlog;
mod write;

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{Transition, WorkerId};
use posthaste_store::{SettleResult, Store};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::supervise::catch_store_panic;
use backlog::{Backlog, WaitingResult};
use write::BatchWriter;

pub use backlog::WriteFailure;

/// Maximum number of settlements written by one call.
const BATCH_MAX: usize = 500;
/// How long the first result of a batch waits for others to join it.
const BATCH_DELAY: Duration = Duration::from_millis(2);
/// Batches written concurrently, so that one slow commit does not delay the next.
const CONCURRENT_BATCHES: usize = 4;

/// The handle through which deliveries submit their results.
pub(crate) struct Settler {
    queue: mpsc::UnboundedSender<PendingSettle>,
    backlog: Arc<Backlog>,
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

/// The loop that batches and writes submitted results. The worker's slots bound the length of its queue.
pub(crate) struct SettleLoop {
    queue: mpsc::UnboundedReceiver<PendingSettle>,
    writer: Arc<BatchWriter>,
}

/// A submitted result, and the channel on which its delivery waits for the store's answer.
struct PendingSettle {
    transition: Arc<Transition>,
    ended_at: Duration,
    reply: oneshot::Sender<SettleResult>,
    waiting: WaitingResult,
}

/// Creates a settler's handle and the loop that writes the results submitted through it.
pub(crate) fn settler(
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> (Settler, SettleLoop) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let backlog = Arc::new(Backlog::default());
    let writer = Arc::new(BatchWriter {
        backlog: Arc::clone(&backlog),
        worker_id: worker_id.clone(),
        store: Arc::clone(&store),
        clock: Arc::clone(&clock),
    });
    (Settler { queue: sender, backlog, worker_id, store, clock }, SettleLoop { queue: receiver, writer })
}

impl Settler {
    /// Submits a result and waits until the store has written it. Returns `None` if a drain ended before, or if the
    /// write panicked.
    pub(crate) async fn settle(
        &self,
        transition: Arc<Transition>,
        ended_at: Duration,
    ) -> Option<SettleResult> {
        let (reply, result) = oneshot::channel();
        let waiting = self.backlog.add(self.clock.monotonic());
        self.queue.send(PendingSettle { transition, ended_at, reply, waiting }).ok()?;
        result.await.ok()
    }

    /// Resolves when the store accepts a trial write. Called before the first claim: results of events that were claimed
    /// earlier could not be written.
    pub(crate) async fn wait_for_trial_write(&self) {
        let mut backoff = Backoff::new();
        let mut failing = None;
        while let Err(error) = catch_store_panic(self.store.check_writes()).await {
            let failing = failing.get_or_insert_with(|| self.backlog.start_failing());
            failing.record(&error);
            if failing.take_log_turn(self.clock.monotonic()) {
                tracing::error!(worker_id = %self.worker_id, code = error.code(), %error,
                    "results could not be written; nothing is claimed until they can");
            }
            self.clock.sleep(backoff.next()).await;
        }
    }

    /// Resolves when no result has been refused or is overdue.
    pub(crate) async fn in_order(&self) {
        self.backlog.in_order(|| self.clock.monotonic()).await;
    }

    /// Returns why results cannot be written, if one was refused or is overdue.
    pub(crate) fn failure(&self) -> Option<WriteFailure> {
        self.backlog.failure(self.clock.monotonic())
    }

    /// Returns the number of results that are not written.
    pub(crate) fn unwritten(&self) -> usize {
        self.backlog.unwritten()
    }

    /// Returns the number of results that the store has refused or has not answered in time.
    pub(crate) fn delayed(&self) -> usize {
        self.backlog.delayed(self.clock.monotonic())
    }

    /// Tries to write every result once more at once, and then gives it up.
    pub(crate) fn start_last_try(&self) {
        self.backlog.start_last_try();
    }
}

impl SettleLoop {
    pub(crate) async fn run(mut self) {
        let permits = Arc::new(Semaphore::new(CONCURRENT_BATCHES));
        let mut writes = JoinSet::new();
        while let Some(first) = self.queue.recv().await {
            let permit = Arc::clone(&permits).acquire_owned().await.expect("the semaphore is never closed");
            let batch = self.collect_batch(first).await;
            let writer = Arc::clone(&self.writer);
            writes.spawn(async move {
                let quarantined = writer.write(batch).await;
                // Quarantined results must not take the place of batches that can be written.
                drop(permit);
                writer.retry_quarantined(quarantined).await;
            });
            while let Some(ended) = writes.try_join_next() {
                log_panic(ended);
            }
        }
        while let Some(ended) = writes.join_next().await {
            log_panic(ended);
        }
    }

    /// Collects `first` and the results submitted within the next [`BATCH_DELAY`], up to [`BATCH_MAX`] in total.
    async fn collect_batch(&mut self, first: PendingSettle) -> Vec<PendingSettle> {
        let mut batch = vec![first];
        let mut delay = self.writer.clock.sleep(BATCH_DELAY);
        while batch.len() < BATCH_MAX {
            tokio::select! {
                biased;
                next = self.queue.recv() => match next {
                    Some(next) => batch.push(next),
                    None => break,
                },
                () = &mut delay => break,
            }
        }
        batch
    }
}

/// Logs a panic while a batch was written. The deliveries of the batch get no result, and their leases expire.
fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "writing results panicked; this is a bug. Their events are claimed again");
    }
}
