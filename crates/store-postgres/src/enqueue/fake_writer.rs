//! A batch writer over the memory store that tests can watch, block, fail and make panic.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::{Lease, NewEvent, NewEventSpec, Timestamp};
use posthaste_store::{EnqueueRequest, EnqueueResponse, LeaseRef, Store as _, StoreError};
use posthaste_store_memory::{ManualClock, MemoryStore};
use tokio::task::JoinHandle;

use super::batch::{self, BatchWriter, EnqueueQueue, WriteError, WriteResult};

/// How long the writer waits for a lock before it reports a request as blocked.
pub(super) const LOCK_WAIT: Duration = Duration::from_millis(250);

pub(super) struct FakeWriter {
    pub(super) memory: MemoryStore,
    /// While set, requests to hosts whose name contains "locked" are blocked.
    pub(super) locked: AtomicBool,
    /// While set, every batch fails as if the server were unavailable.
    pub(super) failing: AtomicBool,
    /// Makes the next batch panic.
    pub(super) panic_once: AtomicBool,
    /// The number of requests of each batch so far.
    batches: Mutex<Vec<usize>>,
    batches_in_progress: AtomicUsize,
    concurrent_batches_max: AtomicUsize,
}

impl FakeWriter {
    pub(super) fn new() -> Arc<Self> {
        let clock = Arc::new(ManualClock::at(Timestamp::from_secs(1_800_000_000)));
        Arc::new(Self {
            memory: MemoryStore::new(clock, 42),
            locked: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            panic_once: AtomicBool::new(false),
            batches: Mutex::default(),
            batches_in_progress: AtomicUsize::new(0),
            concurrent_batches_max: AtomicUsize::new(0),
        })
    }

    /// Creates a writer whose "locked" hosts are blocked from the start.
    pub(super) fn locked() -> Arc<Self> {
        let writer = Self::new();
        writer.locked.store(true, Ordering::Relaxed);
        writer
    }

    /// Starts the queue's task on this writer.
    pub(super) fn start(self: &Arc<Self>) -> Arc<EnqueueQueue> {
        let (queue, receiver) = EnqueueQueue::new();
        tokio::spawn(batch::run(Arc::clone(self) as _, receiver));
        Arc::new(queue)
    }

    pub(super) fn batches(&self) -> Vec<usize> {
        self.batches.lock().unwrap().clone()
    }

    /// Returns the largest number of batches that were in progress at the same time.
    pub(super) fn concurrent_batches_max(&self) -> usize {
        self.concurrent_batches_max.load(Ordering::Relaxed)
    }

    pub(super) fn stored_events(&self) -> usize {
        self.memory.with_state(|state| state.rows.len())
    }
}

#[async_trait]
impl BatchWriter for FakeWriter {
    async fn release(&self, leases: &[Lease]) {
        let held: Vec<LeaseRef> = leases.iter().map(LeaseRef::from).collect();
        self.memory.release(&held).await.unwrap();
    }

    async fn write_batch(&self, batch: &[EnqueueRequest]) -> Result<Vec<WriteResult>, StoreError> {
        self.batches.lock().unwrap().push(batch.len());
        if self.panic_once.swap(false, Ordering::Relaxed) {
            // Unwinds without a message on the terminal.
            std::panic::resume_unwind(Box::new("planted"));
        }
        if self.failing.load(Ordering::Relaxed) {
            return Err(StoreError::Unavailable { reason: "planted".to_owned() });
        }
        let in_progress = self.batches_in_progress.fetch_add(1, Ordering::Relaxed) + 1;
        self.concurrent_batches_max.fetch_max(in_progress, Ordering::Relaxed);
        // During a commit, further requests can be queued.
        for _ in 0..5 {
            tokio::task::yield_now().await;
        }
        self.batches_in_progress.fetch_sub(1, Ordering::Relaxed);
        let mut results = Vec::new();
        for request in batch {
            let url = request.events[0].destination_url().as_str();
            if self.locked.load(Ordering::Relaxed) && url.contains("locked") {
                crate::sleep(LOCK_WAIT).await;
                results.push(Err(WriteError::Blocked { resource: Some(url.to_owned()) }));
            } else {
                results.push(self.memory.enqueue(request.clone()).await.map_err(WriteError::from));
            }
        }
        Ok(results)
    }
}

/// Creates a request with one event, to `https://<host>.test/`, with the id `<host>-<number>`.
pub(super) fn request(host: &str, number: usize) -> EnqueueRequest {
    request_with_payload(host, &format!("{host}-{number}"), &Bytes::from_static(b"{}"))
}

pub(super) fn request_with_payload(host: &str, event_id: &str, payload: &Bytes) -> EnqueueRequest {
    let spec = NewEventSpec {
        destination_url: format!("https://{host}.test/"),
        event_type: "test".into(),
        event_id: Some(event_id.into()),
        payload: payload.clone(),
        ..NewEventSpec::default()
    };
    let event = NewEvent::accept(spec, 8 << 20, 5).expect("a valid event");
    EnqueueRequest::new(vec![event])
}

/// Enqueues a request in a task of its own.
pub(super) fn spawn_enqueue(
    queue: &Arc<EnqueueQueue>,
    request: EnqueueRequest,
) -> JoinHandle<Result<EnqueueResponse, StoreError>> {
    let queue = Arc::clone(queue);
    tokio::spawn(async move { queue.enqueue(request).await })
}
