//! The threads that read, beside the writer and never in its way.
//!
//! Each read runs in a transaction of its own, and so on one snapshot; it sees everything that was acknowledged before
//! it began, because a commit is acknowledged after it is in the log that readers read.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use posthaste_store::StoreError;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

use crate::connect;
use crate::ending::Ending;
use crate::fault::{Fault, store_error};
use crate::queue::{Put, Queue};

/// Threads, each with its connection; started when they are first needed.
const READERS_MAX: usize = 3;
/// Reads that may wait; more than these wait for a place.
const PLACES: usize = 256;

/// Runs on a thread's connection, or is told why that could not be opened.
type Job = Box<dyn FnOnce(Result<&Connection, StoreError>) + Send>;

pub(crate) struct Readers {
    queue: Arc<Queue<Job>>,
    places: Arc<Semaphore>,
    started: AtomicUsize,
    ending: Ending,
    path: PathBuf,
    busy_timeout: Duration,
}

impl Readers {
    pub(crate) fn new(path: PathBuf, busy_timeout: Duration) -> Self {
        Self {
            queue: Arc::new(Queue::new()),
            places: Arc::new(Semaphore::new(PLACES)),
            started: AtomicUsize::new(0),
            ending: Ending::new(),
            path,
            busy_timeout,
        }
    }

    /// Runs `look` on a snapshot.
    pub(crate) async fn call<T, F>(&self, look: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        let place = Arc::clone(&self.places).acquire_owned().await.expect("the semaphore is never closed");
        let (reply, answer) = oneshot::channel();
        let path = self.path.clone();
        let put = self.queue.put(Box::new(move |db| {
            let _place: OwnedSemaphorePermit = place;
            let outcome = db.and_then(|db| snapshot(db, look).map_err(|fault| fault.into_store_error(&path)));
            // A caller that has gone away does not want to know.
            let _ = reply.send(outcome);
        }));
        match put {
            Put::Taken => {}
            Put::Waiting => self.start_another(),
            Put::Refused => {
                let reason = "the store is closed; open it again".to_owned();
                return Err(StoreError::Unavailable { reason });
            }
        }
        answer.await.unwrap_or_else(|_| {
            Err(StoreError::Rejected { reason: "the read panicked; the log says where".to_owned() })
        })
    }

    /// Takes no more reads, finishes those that wait, and closes the connections. Whether it did so in time.
    pub(crate) fn close(&self) -> bool {
        self.queue.close();
        self.ending.wait()
    }

    fn start_another(&self) {
        let Some(pass) = self.ending.pass() else { return };
        let more = |started: usize| (started < READERS_MAX).then_some(started + 1);
        if self.started.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            return;
        }
        let (queue, path, busy_timeout) = (Arc::clone(&self.queue), self.path.clone(), self.busy_timeout);
        let spawned = thread::Builder::new().name("posthaste-read".to_owned()).spawn(move || {
            let mut db = None;
            while let Some(job) = queue.take() {
                let opened = match db.take() {
                    Some(db) => Ok(db),
                    None => connect::reader(&path, busy_timeout).map_err(|error| store_error(&error, &path)),
                };
                let looked = catch_unwind(AssertUnwindSafe(|| job(opened.as_ref().map_err(Clone::clone))));
                // A connection that failed to open or saw a panic is not used again.
                db = opened.ok().filter(|_| looked.is_ok());
            }
            drop(db);
            drop(pass);
        });
        if let Err(error) = spawned {
            self.started.fetch_sub(1, Ordering::Relaxed);
            tracing::error!(%error, "a reading thread could not be started");
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.close();
    }
}

fn snapshot<T>(db: &Connection, look: impl FnOnce(&Connection) -> Result<T, Fault>) -> Result<T, Fault> {
    let transaction = db.unchecked_transaction()?;
    let seen = look(&transaction)?;
    transaction.finish()?;
    Ok(seen)
}
