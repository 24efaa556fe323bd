//! The one thread that writes.
//!
//! It takes every command that waits and runs them in one transaction, so that one flush of the disk serves them all.
//! Nobody is answered before the commit has returned; if it fails, everybody is told so and nothing has happened.
//! A command that SQLite fails or that panics takes nobody with it: the group is rolled back, and each command runs
//! again in a transaction of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use posthaste_store::{StoreClock, StoreError, Waker};
use rand::rngs::StdRng;
use rusqlite::Connection;
use tokio::sync::{Semaphore, oneshot};

use crate::call::{Call, Command, Kind, Writing};
use crate::claim::Rotation;
use crate::ending::Ending;
use crate::fault::{Fault, store_error};
use crate::queue::Queue;

/// Calls that may wait; more than these wait for a place. Renewals have their own.
const PLACES: usize = 1_024;
const PLACES_FOR_RENEWALS: usize = 64;

type Group = Vec<Box<dyn Command>>;

/// The queue's end of the thread.
pub(crate) struct Writer {
    queue: Arc<Queue<Box<dyn Command>>>,
    places: Arc<Semaphore>,
    places_for_renewals: Arc<Semaphore>,
    ending: Ending,
    failing: Arc<AtomicBool>,
}

/// The thread's own.
pub(crate) struct Session {
    pub(crate) db: Connection,
    pub(crate) path: PathBuf,
    pub(crate) clock: Arc<dyn StoreClock>,
    pub(crate) random: StdRng,
    pub(crate) waker: Waker,
    pub(crate) rotation: Rotation,
    /// SQLite could not do the last write.
    pub(crate) failing: Arc<AtomicBool>,
}

impl Writer {
    pub(crate) fn start(mut session: Session) -> std::io::Result<Self> {
        let queue: Arc<Queue<Box<dyn Command>>> = Arc::new(Queue::new());
        let (ending, failing) = (Ending::new(), Arc::clone(&session.failing));
        let (commands, pass) = (Arc::clone(&queue), ending.pass());
        thread::Builder::new().name("posthaste-write".to_owned()).spawn(move || {
            while let Some(group) = commands.take_all() {
                session.serve(group);
            }
            drop(session);
            drop(pass);
        })?;
        Ok(Self {
            queue,
            places: Arc::new(Semaphore::new(PLACES)),
            places_for_renewals: Arc::new(Semaphore::new(PLACES_FOR_RENEWALS)),
            ending,
            failing,
        })
    }

    /// Whether SQLite could not do the last write. What wrote nothing tells nothing: it succeeds on a full disk too.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Takes no more commands. The thread finishes those that wait, and closes its connection.
    pub(crate) fn end(&self) {
        self.queue.close();
    }

    /// Waits for that, within bounds.
    pub(crate) fn has_ended(&self) -> bool {
        self.ending.wait()
    }

    /// Runs `work` in a transaction of the writer's and answers when it is committed.
    pub(crate) async fn call<T, F>(&self, kind: Kind, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Writing<'_>) -> Result<T, Fault> + Send + 'static,
    {
        let places = if kind == Kind::Renewal { &self.places_for_renewals } else { &self.places };
        let place = Arc::clone(places).acquire_owned().await.expect("the semaphores are never closed");
        let (reply, answer) = oneshot::channel();
        self.queue.put(Box::new(Call { kind, work, kept: None, reply, _place: place }));
        answer.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable { reason: "the store is closed; open it again".to_owned() })
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.end();
        self.has_ended();
    }
}

impl Session {
    fn serve(&mut self, mut group: Group) {
        group.retain(|command| command.is_awaited());
        group.sort_by_key(|command| command.kind() != Kind::Renewal);
        let changes_before = self.db.total_changes();
        match self.commit(&mut group) {
            Err(Failure::OfACommand(_)) if group.len() > 1 => {
                for command in group {
                    self.serve(vec![command]);
                }
            }
            outcome => {
                self.note(&outcome, changes_before);
                let outcome = outcome.map_err(|failure| self.told(&failure));
                if outcome.is_ok() && group.iter().any(|command| command.kind() == Kind::MakesDue) {
                    self.waker.wake();
                }
                for command in group {
                    command.answer(outcome.clone());
                }
            }
        }
    }

    fn note(&self, outcome: &Result<(), Failure>, changes_before: u64) {
        match outcome {
            Err(Failure::OfTheStore(Cause::Sqlite(_)) | Failure::OfACommand(Cause::Sqlite(_))) => {
                self.failing.store(true, Ordering::Relaxed);
            }
            Ok(()) if self.db.total_changes() != changes_before => {
                self.failing.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    fn commit(&mut self, group: &mut Group) -> Result<(), Failure> {
        if group.is_empty() {
            return Ok(());
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| self.transact(group)))
            .unwrap_or_else(|panic| Err(Failure::OfACommand(Cause::Panic(told_by(panic.as_ref())))));
        if outcome.is_err() && !self.db.is_autocommit() {
            // Some errors have rolled back by themselves; whatever is left is undone here, and cannot fail.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        outcome
    }

    fn transact(&mut self, group: &mut Group) -> Result<(), Failure> {
        self.db.execute_batch("BEGIN IMMEDIATE").map_err(Failure::of_the_store)?;
        for command in group {
            let now = self.clock.now();
            let (random, rotation) = (&mut self.random, &mut self.rotation);
            let mut writing = Writing { db: &self.db, now, random, rotation };
            command.run(&mut writing).map_err(|error| Failure::OfACommand(Cause::Sqlite(error)))?;
        }
        self.db.execute_batch("COMMIT").map_err(Failure::of_the_store)
    }

    fn told(&self, failure: &Failure) -> StoreError {
        match failure {
            Failure::OfTheStore(Cause::Sqlite(error)) | Failure::OfACommand(Cause::Sqlite(error)) => {
                store_error(error, &self.path)
            }
            Failure::OfTheStore(Cause::Panic(message)) | Failure::OfACommand(Cause::Panic(message)) => {
                tracing::error!(message, "a command of the SQLite store panicked and was rolled back");
                StoreError::Rejected {
                    reason: format!("the command panicked and was rolled back: {message}"),
                }
            }
        }
    }
}

#[derive(Debug)]
enum Failure {
    OfTheStore(Cause),
    OfACommand(Cause),
}

#[derive(Debug)]
enum Cause {
    Sqlite(rusqlite::Error),
    Panic(String),
}

impl Failure {
    fn of_the_store(error: rusqlite::Error) -> Self {
        Self::OfTheStore(Cause::Sqlite(error))
    }
}

fn told_by(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests;
