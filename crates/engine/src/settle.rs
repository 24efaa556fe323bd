//! Groups what has finished and writes it, until the store has said what became of it.
//!
//! A settle is retried for as long as the store is away, past the end of its lease too: the token decides whether
//! it is still good, and a result that was paid for with a request is not thrown away while it may yet be. Only a
//! store that understands and refuses ends it; then the lease is left to expire.

mod backlog;

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{Transition, WorkerId};
use posthaste_store::{Settled, Settlement, Store, StoreError};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;

use crate::backoff::Backoff;
use crate::clock::Clock;
use crate::supervise::contained;
use backlog::Backlog;

/// Settlements written by one call.
const BATCH_MAX: usize = 500;
/// How long the first of a batch waits for company.
const LINGER: Duration = Duration::from_millis(2);
/// Batches being written at once, so that one slow commit does not hold up the next.
const LANES: usize = 4;

/// The way in.
pub(crate) struct Settler {
    queue: mpsc::UnboundedSender<Waiting>,
    backlog: Arc<Backlog>,
}

/// The way on; driven by [`SettleLoop::run`]. Its length is bounded by the worker's slots.
pub(crate) struct SettleLoop {
    queue: mpsc::UnboundedReceiver<Waiting>,
    writer: Arc<Writer>,
}

struct Waiting {
    transition: Arc<Transition>,
    ended_at: Duration,
    reply: oneshot::Sender<Settled>,
}

struct Writer {
    backlog: Arc<Backlog>,
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
}

pub(crate) fn settler(
    worker_id: WorkerId,
    store: Arc<dyn Store>,
    clock: Arc<dyn Clock>,
) -> (Settler, SettleLoop) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let backlog = Arc::new(Backlog::default());
    let writer = Arc::new(Writer { backlog: Arc::clone(&backlog), worker_id, store, clock });
    (Settler { queue: sender, backlog }, SettleLoop { queue: receiver, writer })
}

impl Settler {
    /// Resolves when the store has said what became of it; none if it never will.
    pub(crate) async fn settle(&self, transition: Arc<Transition>, ended_at: Duration) -> Option<Settled> {
        let (reply, answer) = oneshot::channel();
        let _unanswered = self.backlog.wait();
        self.queue.send(Waiting { transition, ended_at, reply }).ok()?;
        answer.await.ok()
    }

    /// Results that wait for the store to come back are tried now; resolves when they are written, or it is still
    /// away. At once, where none wait.
    pub(crate) async fn catch_up(&self) {
        self.backlog.catch_up().await;
    }
}

impl SettleLoop {
    pub(crate) async fn run(mut self) {
        let lanes = Arc::new(Semaphore::new(LANES));
        let mut writing = JoinSet::new();
        while let Some(first) = self.queue.recv().await {
            let lane = Arc::clone(&lanes).acquire_owned().await.expect("the semaphore is never closed");
            let batch = self.gather(first).await;
            let writer = Arc::clone(&self.writer);
            writing.spawn(async move {
                writer.write(batch).await;
                drop(lane);
            });
            while let Some(ended) = writing.try_join_next() {
                note_panic(ended);
            }
        }
        while let Some(ended) = writing.join_next().await {
            note_panic(ended);
        }
    }

    /// The first and whatever joins it within a few milliseconds.
    async fn gather(&mut self, first: Waiting) -> Vec<Waiting> {
        let mut batch = vec![first];
        let mut linger = self.writer.clock.sleep(LINGER);
        while batch.len() < BATCH_MAX {
            tokio::select! {
                biased;
                next = self.queue.recv() => match next {
                    Some(next) => batch.push(next),
                    None => break,
                },
                () = &mut linger => break,
            }
        }
        batch
    }
}

/// Those who waited for the batch learn that nobody will answer; their leases expire by themselves.
fn note_panic(ended: Result<(), tokio::task::JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "writing results panicked; this is a bug. Their events are claimed again");
    }
}

impl Writer {
    async fn write(&self, batch: Vec<Waiting>) {
        let mut unwritten = vec![batch];
        while let Some(batch) = unwritten.pop() {
            match self.settle(&batch).await {
                Ok(settled) => {
                    for (waiting, settled) in batch.into_iter().zip(settled) {
                        // Nobody waits for a delivery that was aborted.
                        let _ = waiting.reply.send(settled);
                    }
                }
                // One that the store refuses must not take the others with it.
                Err(_) if batch.len() > 1 => {
                    let mut first = batch;
                    let second = first.split_off(first.len() / 2);
                    unwritten.extend([first, second]);
                }
                Err(error) => {
                    for waiting in batch {
                        let event_id = waiting.transition.event_id();
                        tracing::error!(%event_id, worker_id = %self.worker_id, code = error.code(), %error,
                            "a result cannot be written; the event is attempted again when its lease has expired");
                    }
                }
            }
        }
    }

    /// Asks until there is an answer.
    async fn settle(&self, batch: &[Waiting]) -> Result<Vec<Settled>, StoreError> {
        let mut backoff = Backoff::new();
        let mut settlements: Vec<Settlement> = batch
            .iter()
            .map(|waiting| Settlement {
                transition: Arc::clone(&waiting.transition),
                ended_ago: Duration::ZERO,
            })
            .collect();
        loop {
            let now = self.clock.monotonic();
            for (settlement, waiting) in settlements.iter_mut().zip(batch) {
                settlement.ended_ago = now.saturating_sub(waiting.ended_at);
            }
            match contained(self.store.settle(&self.worker_id, &settlements)).await {
                Err(error) if error.is_transient() => {
                    tracing::warn!(worker_id = %self.worker_id, code = error.code(), %error, results = batch.len(),
                        "results were not written; trying again");
                    self.backlog.failed();
                    tokio::select! {
                        biased;
                        () = self.backlog.hurried() => {}
                        () = self.clock.sleep(backoff.next()) => {}
                    }
                }
                Ok(settled) if settled.len() != batch.len() => {
                    let reason = format!("{} answers for {} settlements", settled.len(), batch.len());
                    return Err(StoreError::Rejected { reason });
                }
                answer => return answer,
            }
        }
    }
}
