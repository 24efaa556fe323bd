//! The enqueue queue: groups concurrent requests into batches that share one commit.
//!
//! A request that is alone does not wait. Requests that arrive while a batch is being committed form the next batch.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use posthaste_domain::Lease;
use posthaste_store::{EnqueueRequest, EnqueueResponse, StoreError};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use super::contention::ContendedRequests;
use crate::error::unavailable;
use crate::session::CALL_TIMEOUT;

/// Capacity of the queue. Beyond it, callers wait until a request leaves the queue.
pub(super) const QUEUED_REQUESTS_MAX: usize = 1_024;
/// Number of events that make a batch full. A full batch takes no further request.
const BATCH_EVENTS: usize = 1_000;
/// Size of the payloads that makes a batch full. A batch crosses the link to PostgreSQL within the time limit of one call.
const BATCH_BYTES: usize = 4 << 20;
/// Maximum number of batches in progress at the same time, each on a connection of its own. All but one of them are
/// full. The client encodes one batch while the server commits another.
const BATCHES_IN_PROGRESS_MAX: usize = 2;

/// Writes batches of requests. A batch takes as few commits as possible and has one result per request, in order.
#[async_trait]
pub(super) trait BatchWriter: Send + Sync {
    async fn write_batch(&self, batch: &[EnqueueRequest]) -> Result<Vec<WriteResult>, StoreError>;

    /// Releases the leases of a response that no caller receives.
    async fn release(&self, leases: &[Lease]);
}

/// The result of one request of a batch.
pub(super) type WriteResult = Result<EnqueueResponse, WriteError>;

/// Why a request of a batch was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WriteError {
    /// Another client's open transaction holds a row that this request needs. Nothing was stored; a later try may
    /// succeed. `resource` is the destination URL or event id, where only one can be the reason.
    Blocked { resource: Option<String> },
    /// The store failed or refused the request.
    Failed(StoreError),
}

impl From<StoreError> for WriteError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// The sending side of the channel that carries a result to its caller.
type Reply = oneshot::Sender<Result<EnqueueResponse, StoreError>>;

/// The sending side of the queue. [`enqueue`](Self::enqueue) returns a response only after the request's commit.
pub(crate) struct EnqueueQueue {
    sender: mpsc::Sender<QueuedRequest>,
}

/// The receiving side of the queue, consumed by [`run`].
pub(crate) type QueueReceiver = mpsc::Receiver<QueuedRequest>;

/// A request in the queue, and the channel to its caller.
pub(crate) struct QueuedRequest {
    /// The request. It is empty once the caller has gone away: its payload must not stay in memory while the server is
    /// unavailable.
    request: SharedRequest,
    reply: Reply,
}

/// A request that its caller can withdraw for as long as it is queued.
type SharedRequest = Arc<Mutex<Option<EnqueueRequest>>>;

/// A request taken from the queue, and the channel to its caller.
pub(super) struct PendingEnqueue {
    pub(super) request: EnqueueRequest,
    pub(super) reply: Reply,
}

impl PendingEnqueue {
    /// Sends the response to the caller. The response is lost if the caller has gone away; it can repeat the request under
    /// its idempotency key. Leases of a lost response are released, because no worker would settle them.
    pub(super) async fn respond(self, writer: &dyn BatchWriter, response: EnqueueResponse) {
        if let Err(Ok(lost)) = self.reply.send(Ok(response))
            && !lost.leases.is_empty()
        {
            writer.release(&lost.leases).await;
        }
    }

    /// Sends an error to the caller, unless it has gone away.
    pub(super) fn refuse(self, error: StoreError) {
        let _ = self.reply.send(Err(error));
    }

    /// Returns whether the caller has gone away.
    pub(super) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }
}

/// A guard that withdraws a request from the queue when its caller goes away and drops the guard.
struct WithdrawOnDrop(SharedRequest);

impl Drop for WithdrawOnDrop {
    fn drop(&mut self) {
        drop(take(&self.0));
    }
}

/// Takes the request out. Returns None if its caller has withdrawn it.
fn take(request: &Mutex<Option<EnqueueRequest>>) -> Option<EnqueueRequest> {
    request.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl EnqueueQueue {
    /// Creates the two sides of an empty queue.
    pub(crate) fn new() -> (Self, QueueReceiver) {
        let (sender, receiver) = mpsc::channel(QUEUED_REQUESTS_MAX);
        (Self { sender }, receiver)
    }

    /// Queues a request and waits until it is committed or refused, at most for [`CALL_TIMEOUT`].
    #[expect(clippy::disallowed_methods, reason = "bounds a wait for the server; nothing is scheduled by it")]
    pub(crate) async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let result = tokio::time::timeout(CALL_TIMEOUT, self.enqueue_unbounded(request)).await;
        result.unwrap_or_else(|_| {
            Err(unavailable(format!("the events were not stored within {CALL_TIMEOUT:?}")))
        })
    }

    async fn enqueue_unbounded(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let ended = || unavailable("the store takes no more events: its tokio runtime is shutting down");
        let (reply, result) = oneshot::channel();
        let request = Arc::new(Mutex::new(Some(request)));
        let _withdrawal = WithdrawOnDrop(Arc::clone(&request));
        self.sender.send(QueuedRequest { request, reply }).await.map_err(|_| ended())?;
        result.await.map_err(|_| ended())?
    }
}

/// Writes queued requests until every [`EnqueueQueue`] is dropped and every request has its result.
pub(super) async fn run(writer: Arc<dyn BatchWriter>, queue: QueueReceiver) {
    let contended = Arc::new(ContendedRequests::default());
    let queue = Arc::new(tokio::sync::Mutex::new(queue));
    // A task per batch in progress, so that batches are encoded in parallel. Dropping the set ends the tasks.
    let mut tasks = JoinSet::new();
    for _ in 0..BATCHES_IN_PROGRESS_MAX {
        tasks.spawn(write_batches(Arc::clone(&writer), Arc::clone(&queue), Arc::clone(&contended)));
    }
    let batches = async {
        while tasks.join_next().await.is_some() {}
        contended.close();
    };
    tokio::join!(batches, contended.run(&*writer));
}

/// Takes batches from the queue and writes them, one at a time, until the queue is closed and empty.
async fn write_batches(
    writer: Arc<dyn BatchWriter>,
    queue: Arc<tokio::sync::Mutex<QueueReceiver>>,
    contended: Arc<ContendedRequests>,
) {
    loop {
        let mut queue = queue.lock().await;
        let Some(batch) = next_batch(&mut queue, &contended).await else { return };
        // A full batch leaves the queue to another task, which writes the next batch in parallel. A smaller one keeps it:
        // requests that arrive meanwhile share the next commit.
        let _kept_queue = (!batch.is_full()).then_some(queue);
        let results = write_contained(&*writer, &batch.requests).await;
        for ((request, reply), result) in batch.requests.into_iter().zip(batch.replies).zip(results) {
            let pending = PendingEnqueue { request, reply };
            match result {
                Ok(response) => pending.respond(&*writer, response).await,
                Err(WriteError::Failed(error)) => pending.refuse(error),
                Err(WriteError::Blocked { resource }) => {
                    contended.mark_locked(resource);
                    contended.add(pending);
                }
            }
        }
    }
}

/// Requests to write together.
#[derive(Default)]
struct Batch {
    requests: Vec<EnqueueRequest>,
    /// The channels to the callers, in the order of the requests.
    replies: Vec<Reply>,
    events: usize,
    payload_bytes: usize,
}

impl Batch {
    fn push(&mut self, pending: PendingEnqueue) {
        self.events += pending.request.events.len();
        self.payload_bytes += pending.request.events.iter().map(|event| event.payload().len()).sum::<usize>();
        self.requests.push(pending.request);
        self.replies.push(pending.reply);
    }

    fn is_full(&self) -> bool {
        self.events >= BATCH_EVENTS || self.payload_bytes >= BATCH_BYTES
    }
}

/// Waits for a request and takes every other that is queued, up to the size of a batch. Requests that need a locked
/// resource join the contended ones instead. Returns None once the queue is closed and empty.
async fn next_batch(queue: &mut QueueReceiver, contended: &ContendedRequests) -> Option<Batch> {
    let mut batch = Batch::default();
    let mut next = Some(queue.recv().await?);
    while let Some(QueuedRequest { request, reply }) = next {
        match take(&request) {
            Some(request) if contended.needs_locked_resource(&request) => {
                contended.add(PendingEnqueue { request, reply });
            }
            Some(request) => batch.push(PendingEnqueue { request, reply }),
            None => {}
        }
        next = if batch.is_full() { None } else { queue.try_recv().ok() };
    }
    Some(batch)
}

/// Writes a batch and returns one result per request, even when the writer panics.
pub(super) async fn write_contained(writer: &dyn BatchWriter, batch: &[EnqueueRequest]) -> Vec<WriteResult> {
    if batch.is_empty() {
        return Vec::new();
    }
    let failure = match contain_panic(writer.write_batch(batch)).await {
        Ok(results) if results.len() == batch.len() => return results,
        Ok(results) => {
            let reason = format!("{} results for {} requests", results.len(), batch.len());
            StoreError::Rejected { reason }
        }
        Err(error) => error,
    };
    vec![Err(WriteError::Failed(failure)); batch.len()]
}

/// Turns a panic into an error, so that it costs its own batch and not the queue.
async fn contain_panic<T>(call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    AssertUnwindSafe(call).catch_unwind().await.unwrap_or_else(|_| {
        tracing::error!("storing events panicked; this is a bug");
        Err(StoreError::Rejected { reason: "storing the events panicked".to_owned() })
    })
}

#[cfg(test)]
mod tests;
