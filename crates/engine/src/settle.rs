//! The settler: groups results of finished attempts into batches and writes each batch in one commit.
//!
//! A batch is retried for as long as the store is unavailable, also past the expiry of its leases: the token decides
//! whether a result still applies (see [`lease_protocol`](crate::lease_protocol)). Only a store that answers and
//! refuses the result ends the retries; the lease then expires and the event is attempted again.

mod backlog;

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{Transition, WorkerId};
use posthaste_store::{SettleResult, Settlement, Store, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::supervise::catch_store_panic;
use backlog::Backlog;

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
}

struct BatchWriter {
    backlog: Arc<Backlog>,
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

/// Creates a settler's handle and the loop that writes the results submitted through it.
pub(crate) fn settler(
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> (Settler, SettleLoop) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let backlog = Arc::new(Backlog::default());
    let writer = Arc::new(BatchWriter { backlog: Arc::clone(&backlog), worker_id, store, clock });
    (Settler { queue: sender, backlog }, SettleLoop { queue: receiver, writer })
}

impl Settler {
    /// Submits a result and waits until the store has written it. Returns `None` if the store refused it or the write
    /// panicked.
    pub(crate) async fn settle(
        &self,
        transition: Arc<Transition>,
        ended_at: Duration,
    ) -> Option<SettleResult> {
        let (reply, result) = oneshot::channel();
        let _pending = self.backlog.add();
        self.queue.send(PendingSettle { transition, ended_at, reply }).ok()?;
        result.await.ok()
    }

    /// Retries results that an outage has delayed. Resolves when they are written, or when the store is still
    /// unavailable; immediately if there are none.
    pub(crate) async fn catch_up(&self) {
        self.backlog.catch_up().await;
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
                writer.write(batch).await;
                drop(permit);
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

impl BatchWriter {
    /// Writes a batch. If the store rejects it, splits it in half until the offending result is alone.
    async fn write(&self, batch: Vec<PendingSettle>) {
        let mut unwritten = vec![batch];
        while let Some(batch) = unwritten.pop() {
            match self.settle(&batch).await {
                Ok(results) => {
                    for (pending, result) in batch.into_iter().zip(results) {
                        // An aborted delivery has dropped its receiver; the result is still written.
                        let _ = pending.reply.send(result);
                    }
                }
                Err(_) if batch.len() > 1 => {
                    let mut first = batch;
                    let second = first.split_off(first.len() / 2);
                    unwritten.extend([first, second]);
                }
                Err(error) => {
                    for pending in batch {
                        let event_id = pending.transition.event_id();
                        tracing::error!(%event_id, worker_id = %self.worker_id, code = error.code(), %error,
                            "a result cannot be written; the event is attempted again when its lease has expired");
                    }
                }
            }
        }
    }

    /// Writes a batch, and retries with backoff while the store is unavailable.
    async fn settle(&self, batch: &[PendingSettle]) -> Result<Vec<SettleResult>, StoreError> {
        let mut backoff = Backoff::new();
        let mut settlements: Vec<Settlement> = batch
            .iter()
            .map(|pending| Settlement {
                transition: Arc::clone(&pending.transition),
                ended_ago: Duration::ZERO,
            })
            .collect();
        loop {
            let now = self.clock.monotonic();
            for (settlement, pending) in settlements.iter_mut().zip(batch) {
                settlement.ended_ago = now.saturating_sub(pending.ended_at);
            }
            match catch_store_panic(self.store.settle(&self.worker_id, &settlements)).await {
                Err(error) if error.is_transient() => {
                    tracing::warn!(worker_id = %self.worker_id, code = error.code(), %error, results = batch.len(),
                        "results were not written; trying again");
                    self.backlog.record_failure();
                    tokio::select! {
                        biased;
                        () = self.backlog.retry_requested() => {}
                        () = self.clock.sleep(backoff.next()) => {}
                    }
                }
                Ok(results) if results.len() != batch.len() => {
                    let reason = format!(
                        "the store returned {} results for {} settlements",
                        results.len(),
                        batch.len()
                    );
                    return Err(StoreError::Rejected { reason });
                }
                result => return result,
            }
        }
    }
}
