//! The threads that read. They run beside the writer and never block it.
//!
//! Each read runs in its own transaction and therefore on one snapshot. The snapshot contains everything that was
//! acknowledged before the read began, because a commit is acknowledged after it is in the write-ahead log.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use posthaste_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::connect;
use crate::database_file::DatabaseFile;
use crate::error::CallError;
use crate::job_queue::{JobQueue, PushResult};
use crate::thread_group::ThreadGroup;

/// Maximum number of reader threads, each with its own connection. A thread starts when all others are busy.
const THREADS_MAX: usize = 3;
/// Maximum number of queued and running reads; further callers wait until one finishes.
const QUEUE_CAPACITY: usize = 256;

/// A read, called with its thread's connection or with the error from opening that connection.
type ReadJob = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

/// The reader threads and their queue.
pub(crate) struct ReaderPool {
    queue: Arc<JobQueue<ReadJob>>,
    capacity: Arc<Semaphore>,
    started: AtomicUsize,
    threads: ThreadGroup,
    file: Arc<DatabaseFile>,
    busy_timeout: Duration,
}

impl ReaderPool {
    pub(crate) fn new(file: Arc<DatabaseFile>, busy_timeout: Duration) -> Self {
        Self {
            queue: Arc::new(JobQueue::new()),
            capacity: Arc::new(Semaphore::new(QUEUE_CAPACITY)),
            started: AtomicUsize::new(0),
            threads: ThreadGroup::new(),
            file,
            busy_timeout,
        }
    }

    /// Runs `query` on a snapshot and returns its result.
    pub(crate) async fn call<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, CallError> + Send + 'static,
    {
        let permit = Arc::clone(&self.capacity).acquire_owned().await.expect("the semaphore is never closed");
        let (reply, result) = oneshot::channel();
        let file = Arc::clone(&self.file);
        let pushed = self.queue.push(Box::new(move |db| {
            let _permit: OwnedSemaphorePermit = permit;
            let result =
                db.and_then(|db| run_on_snapshot(db, query).map_err(|error| error.into_store_error(&file)));
            // The send fails when the caller has dropped its future; the result is then not needed.
            let _ = reply.send(result);
        }));
        match pushed {
            PushResult::ThreadAvailable => {}
            PushResult::AllThreadsBusy => self.start_thread(),
            PushResult::Closed => {
                let reason = "the store is closed; open it again".to_owned();
                return Err(StoreError::Unavailable { reason });
            }
        }
        result.await.unwrap_or_else(|_| {
            Err(StoreError::Rejected { reason: "the read panicked; the log shows where".to_owned() })
        })
    }

    /// Accepts no more reads, finishes the queued ones and closes the connections. Returns whether all threads exited
    /// in time.
    pub(crate) fn close(&self) -> bool {
        self.queue.close();
        self.threads.join()
    }

    /// Starts another thread, unless there are [`THREADS_MAX`] already or the pool is being closed.
    fn start_thread(&self) {
        let Some(membership) = self.threads.add_member() else { return };
        let increment = |started: usize| (started < THREADS_MAX).then_some(started + 1);
        if self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).is_err() {
            return;
        }
        let (queue, file, busy_timeout) =
            (Arc::clone(&self.queue), Arc::clone(&self.file), self.busy_timeout);
        let spawned = thread::Builder::new().name("posthaste-read".to_owned()).spawn(move || {
            let mut db = None;
            while let Some(job) = queue.take() {
                let connection = match db.take() {
                    Some(db) => Ok(db),
                    None => open_reader(&file, busy_timeout),
                };
                let finished =
                    catch_unwind(AssertUnwindSafe(|| job(connection.as_ref().map_err(Clone::clone))));
                // Keep the connection for the next job, unless this job panicked.
                db = connection.ok().filter(|_| finished.is_ok());
            }
            drop(db);
            drop(membership);
        });
        if let Err(error) = spawned {
            self.started.fetch_sub(1, Ordering::Relaxed);
            tracing::error!(%error, "cannot start a reader thread of the SQLite store");
        }
    }
}

impl Drop for ReaderPool {
    fn drop(&mut self) {
        self.close();
    }
}

/// Opens a connection to the store's own file. Another file may be at its path by now.
fn open_reader(file: &DatabaseFile, busy_timeout: Duration) -> Result<Connection, StoreError> {
    file.check_identity()?;
    connect::open_reader(file.path(), busy_timeout).map_err(|error| file.to_store_error(&error))
}

fn run_on_snapshot<T>(
    db: &Connection,
    query: impl FnOnce(&Connection) -> Result<T, CallError>,
) -> Result<T, CallError> {
    let transaction = db.unchecked_transaction()?;
    let result = query(&transaction)?;
    transaction.finish()?;
    Ok(result)
}
