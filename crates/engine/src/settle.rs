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
mod finished;
mod queue;
mod write;

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::WorkerId;
use posthaste_store::{LeaseRef, Store};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::supervise::catch_store_panic;
use crate::worker::Worker;
use backlog::{Backlog, WaitingResult};
use queue::ResultQueue;
use write::BatchWriter;

pub use backlog::WriteFailure;
pub(crate) use finished::FinishedDelivery;

/// Maximum number of settlements written by one call.
const BATCH_MAX: usize = 500;
/// Number of results that are worth a call beside one that is in progress. Fewer wait until it has ended: they share the
/// next commit.
const BATCH_FULL: usize = 256;
/// How long results wait for others after a batch, if that batch shows that many arrive. The receivers have answered already,
/// and the slots are free, so only the store sees the difference.
const LINGER: Duration = Duration::from_millis(10);
/// Number of results in a batch from which the next one lingers.
const LINGER_AFTER: usize = 16;
/// Batches written concurrently, so that one slow commit does not delay the next.
const CONCURRENT_BATCHES: usize = 4;

/// The handle through which deliveries submit their results.
pub(crate) struct Settler {
    queue: Arc<ResultQueue>,
    backlog: Arc<Backlog>,
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

/// The loop that batches and writes submitted results. [`Settler::unwritten`] bounds the length of its queue, because the
/// claimer observes it.
pub(crate) struct SettleLoop {
    queue: Arc<ResultQueue>,
    backlog: Arc<Backlog>,
}

/// A submitted result.
struct PendingSettle {
    delivery: FinishedDelivery,
    ended_at: Duration,
    waiting: WaitingResult,
}

/// Creates a settler's handle and the loop that writes the results submitted through it.
pub(crate) fn settler(
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> (Settler, SettleLoop) {
    let (queue, backlog) = (Arc::new(ResultQueue::default()), Arc::new(Backlog::default()));
    let settle_loop = SettleLoop { queue: Arc::clone(&queue), backlog: Arc::clone(&backlog) };
    (Settler { queue, backlog, worker_id, store, clock }, settle_loop)
}

impl Settler {
    /// Submits the result of a request that ended at `ended_at`.
    pub(crate) fn submit(&self, delivery: FinishedDelivery, ended_at: Duration) {
        delivery.mark_settling();
        let waiting = self.backlog.add(ended_at);
        // If the process ends before the loop has written the result, the lease expires.
        self.queue.push(PendingSettle { delivery, ended_at, waiting });
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

    /// Resolves when every result is written or given up.
    pub(crate) async fn finished(&self) {
        self.backlog.empty().await;
    }

    /// Returns the number of results that were given up and whose leases are still to be released.
    pub(crate) fn given_up(&self) -> usize {
        self.backlog.given_up()
    }

    /// Takes the leases of the results that were given up at the end of a drain.
    pub(crate) fn take_given_up(&self) -> Vec<LeaseRef> {
        self.backlog.take_given_up()
    }

    /// Tries to write every result once more at once, and then gives it up.
    pub(crate) fn start_last_try(&self) {
        self.backlog.start_last_try();
    }
}

impl SettleLoop {
    /// Writes results: at once if no batch is in progress, and otherwise as soon as enough wait for another one. Never returns.
    pub(crate) async fn run(self, worker: Arc<Worker>) {
        let writer = Arc::new(BatchWriter { backlog: Arc::clone(&self.backlog), worker });
        let turns = Turns::default();
        let mut writes = JoinSet::new();
        let mut last_batch = 0;
        loop {
            let turn = self.next_turn(&turns).await;
            if last_batch >= LINGER_AFTER {
                self.linger(&*writer.worker.ports.clock).await;
            }
            let batch = self.queue.take_batch();
            last_batch = batch.len();
            let writer = Arc::clone(&writer);
            writes.spawn(async move {
                let quarantined = writer.write(batch).await;
                // Quarantined results must not take the place of batches that can be written.
                drop(turn);
                writer.retry_quarantined(quarantined).await;
            });
            while let Some(ended) = writes.try_join_next() {
                log_panic(ended);
            }
        }
    }

    /// Waits until results wait that are worth a batch now.
    async fn next_turn(&self, turns: &Turns) -> Turn {
        loop {
            if let Some(turn) = turns.take(self.queue.len()) {
                return turn;
            }
            tokio::select! {
                biased;
                () = self.queue.filled() => {}
                () = turns.ended.notified() => {}
            }
        }
    }

    /// Waits until the results fill a batch or [`LINGER`] has passed.
    async fn linger(&self, clock: &dyn Clock) {
        let filled = async {
            while self.queue.len() < BATCH_FULL {
                self.queue.filled().await;
            }
        };
        tokio::select! {
            biased;
            () = filled => {}
            () = clock.sleep(LINGER) => {}
        }
    }
}

/// The batches in progress.
struct Turns {
    permits: Arc<Semaphore>,
    ended: Arc<Notify>,
}

/// The right to write one batch. Dropping it says that the batch has ended.
struct Turn {
    permit: Option<OwnedSemaphorePermit>,
    ended: Arc<Notify>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { permits: Arc::new(Semaphore::new(CONCURRENT_BATCHES)), ended: Arc::default() }
    }
}

impl Turns {
    /// Returns whether so many results are worth a batch now.
    fn allows(&self, results: usize) -> bool {
        match self.permits.available_permits() {
            0 => false,
            CONCURRENT_BATCHES => results > 0,
            _ => results >= BATCH_FULL,
        }
    }

    fn take(&self, results: usize) -> Option<Turn> {
        if !self.allows(results) {
            return None;
        }
        let permit = Arc::clone(&self.permits).try_acquire_owned().ok();
        Some(Turn { permit, ended: Arc::clone(&self.ended) })
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        drop(self.permit.take());
        self.ended.notify_one();
    }
}

/// Logs a panic while a batch was written. Its results are lost, and their leases expire.
fn log_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "writing results panicked; this is a bug. Their events are claimed again");
    }
}
