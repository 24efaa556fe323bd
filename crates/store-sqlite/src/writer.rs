//! The one thread that writes.
//!
//! The thread takes all queued commands and runs them in one transaction, so that they share one flush of the disk. No
//! caller gets a result before the commit has returned and the file has been found at its path. If the commit fails,
//! every caller gets the error and nothing was written. A command that panics or gets an SQLite error does not affect
//! the others: the group is rolled back, and each command runs again in its own transaction.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use posthaste_store::{StoreClock, StoreError, Waker};
use rand::rngs::StdRng;
use rusqlite::{Connection, ErrorCode, ffi};
use tokio::sync::{Semaphore, oneshot};

use crate::checkpoint::{self, Checkpointer};
use crate::claim::ClaimRotation;
use crate::clock_repair::ClockRepair;
use crate::command::{Command, CommandKind, PendingCall, SharedWork, WriteContext};
use crate::database_file::DatabaseFile;
use crate::error::CallError;
use crate::foreign_commits::ForeignCommits;
use crate::free_space;
use crate::job_queue::JobQueue;
use crate::thread_group::ThreadGroup;

/// Maximum number of queued and running calls; further callers wait until one finishes.
const QUEUE_CAPACITY: usize = 1_024;
/// Capacity reserved for renewals, so that other calls never delay them.
const RENEWAL_CAPACITY: usize = 64;

/// Soft limit of new events in a group: once it is reached, the group takes no further enqueue. A longer commit would
/// delay the renewals that arrive meanwhile.
const GROUP_EVENTS: usize = 1_000;

/// Commands that share a transaction.
type Group = Vec<Box<dyn Command>>;

/// Handle to the writer thread.
pub(crate) struct Writer {
    queue: Arc<JobQueue<Box<dyn Command>>>,
    capacity: Arc<Semaphore>,
    renewal_capacity: Arc<Semaphore>,
    threads: ThreadGroup,
    failing: Arc<AtomicBool>,
}

/// State that the writer thread owns.
pub(crate) struct WriterThread {
    /// Before `db`, so that its connection is closed first: the last connection copies the log into the file.
    pub(crate) checkpointer: Checkpointer,
    pub(crate) db: Connection,
    pub(crate) file: Arc<DatabaseFile>,
    pub(crate) clock: Arc<dyn StoreClock>,
    pub(crate) random: StdRng,
    pub(crate) waker: Waker,
    pub(crate) rotation: ClaimRotation,
    pub(crate) clock_repair: ClockRepair,
    pub(crate) foreign_commits: ForeignCommits,
    /// Whether a command of the current group left new events for a claim.
    pub(crate) has_due_events: bool,
    /// Whether the last write ended with an SQLite error.
    pub(crate) failing: Arc<AtomicBool>,
}

impl Writer {
    /// Starts the writer thread.
    pub(crate) fn start(mut writer_thread: WriterThread) -> std::io::Result<Self> {
        let queue: Arc<JobQueue<Box<dyn Command>>> = Arc::new(JobQueue::new());
        let (threads, failing) = (ThreadGroup::new(), Arc::clone(&writer_thread.failing));
        let (commands, membership) = (Arc::clone(&queue), threads.add_member());
        thread::Builder::new().name("posthaste-write".to_owned()).spawn(move || {
            let mut queued = Group::new();
            while let Some(arrived) = match queued.is_empty() {
                true => commands.take_all_within(writer_thread.foreign_commits.interval()),
                false => Some(commands.drain()),
            } {
                queued.extend(arrived);
                if queued.is_empty() {
                    writer_thread.wake_for_foreign_commits();
                    continue;
                }
                let (group, rest) = split_group(queued);
                writer_thread.run_group(group);
                queued = rest;
            }
            drop(writer_thread);
            drop(membership);
        })?;
        Ok(Self {
            queue,
            capacity: Arc::new(Semaphore::new(QUEUE_CAPACITY)),
            renewal_capacity: Arc::new(Semaphore::new(RENEWAL_CAPACITY)),
            threads,
            failing,
        })
    }

    /// Returns whether the last write ended with an SQLite error. A call that changes no row does not count, because
    /// such a call also succeeds on a full disk.
    pub(crate) fn is_failing(&self) -> bool {
        self.failing.load(Ordering::Relaxed)
    }

    /// Lets an idle thread look whether a worker needs to know of commits of other processes.
    pub(crate) fn nudge(&self) {
        self.queue.nudge();
    }

    /// Stops accepting commands. The thread finishes the queued ones, closes its connection and exits.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    /// Waits for the thread to exit and returns whether it did in time.
    pub(crate) fn join(&self) -> bool {
        self.threads.join()
    }

    /// Runs `work` in a transaction of the writer thread and returns its result after the commit.
    pub(crate) async fn call<T, F>(&self, kind: CommandKind, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteContext<'_>) -> Result<T, CallError> + Send + 'static,
    {
        let capacity = if kind == CommandKind::Renewal { &self.renewal_capacity } else { &self.capacity };
        let permit = Arc::clone(capacity).acquire_owned().await.expect("the semaphores are never closed");
        let (reply, result) = oneshot::channel();
        let shared_work = SharedWork::new(work);
        let _withdrawal = shared_work.withdraw_on_drop();
        let call = PendingCall { kind, shared_work, work: None, result: None, reply, _permit: permit };
        self.queue.push(Box::new(call));
        result.await.unwrap_or_else(|_| {
            Err(StoreError::Unavailable { reason: "the store is closed; open it again".to_owned() })
        })
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
        self.join();
    }
}

/// Splits queued commands into the next group and the enqueues that exceed [`GROUP_EVENTS`].
fn split_group(queued: Group) -> (Group, Group) {
    let mut group_events = 0;
    queued.into_iter().partition(|command| match command.kind() {
        CommandKind::Enqueue { .. } if group_events >= GROUP_EVENTS => false,
        CommandKind::Enqueue { events } => {
            group_events += events;
            true
        }
        _ => true,
    })
}

impl WriterThread {
    /// Wakes the workers if another connection has committed new events.
    fn wake_for_foreign_commits(&mut self) {
        if self.foreign_commits.look(&self.db) {
            self.waker.wake();
        }
    }

    /// Runs and commits a group, then responds to its callers. If a command fails, the group is rolled back and each
    /// command runs again in its own transaction. If the disk is full, the group runs again after a checkpoint.
    fn run_group(&mut self, mut group: Group) {
        group.retain_mut(|command| command.take_work());
        group.sort_by_key(|command| command.kind() != CommandKind::Renewal);
        let changes_before = self.db.total_changes();
        let reserve = self.reserve_space(&group);
        let mut committed = self.commit(&mut group, &reserve);
        if committed.as_ref().is_err_and(GroupError::is_out_of_space) && checkpoint::empty_log(&self.db) {
            committed = self.commit(&mut group, &reserve);
        }
        match committed {
            Err(GroupError::Command(_)) if group.len() > 1 => {
                for command in group {
                    self.run_group(vec![command]);
                }
            }
            committed => {
                self.update_failing(&committed, changes_before);
                let committed = committed.map_err(|error| self.to_store_error(&error));
                let makes_due = self.has_due_events || group.iter().any(|command| command.kind().makes_due());
                if committed.is_ok() && makes_due {
                    self.waker.wake();
                }
                for command in group {
                    command.respond(committed.clone());
                }
                self.checkpointer.after_commit(&self.db);
            }
        }
    }

    /// Checks that the disk has room for the new events of a group, if any. Empties the log if it has not.
    fn reserve_space(&self, group: &Group) -> Result<(), StoreError> {
        if !group.iter().any(|command| matches!(command.kind(), CommandKind::Enqueue { .. })) {
            return Ok(());
        }
        let check = || match free_space::check_reserve(&self.db, self.file.path()) {
            Ok(()) => Ok(()),
            Err(CallError::Refused(error)) => Err(error),
            Err(CallError::Sqlite(error)) => Err(self.file.to_store_error(&error)),
        };
        check().or_else(|_| {
            checkpoint::empty_log(&self.db);
            check()
        })
    }

    /// Sets the `failing` flag if SQLite returned an error for this group. Clears the flag if the commit changed a row;
    /// a commit without changes proves nothing, because it also succeeds on a full disk.
    fn update_failing(&self, committed: &Result<(), GroupError>, changes_before: u64) {
        match committed {
            Err(GroupError::Transaction(_) | GroupError::Command(Cause::Sqlite(_))) => {
                self.failing.store(true, Ordering::Relaxed);
            }
            Ok(()) if self.db.total_changes() != changes_before => {
                self.failing.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }

    /// Runs a group in one transaction; rolls it back if any command fails or panics.
    fn commit(&mut self, group: &mut Group, reserve: &Result<(), StoreError>) -> Result<(), GroupError> {
        if group.is_empty() {
            return Ok(());
        }
        let committed = catch_unwind(AssertUnwindSafe(|| self.transact(group, reserve)))
            .unwrap_or_else(|panic| Err(GroupError::Command(Cause::Panic(panic_message(panic.as_ref())))));
        if committed.is_err() && !self.db.is_autocommit() {
            // SQLite itself rolls back after some errors. After the others the transaction is still open, and rolling
            // it back cannot fail.
            let _ = self.db.execute_batch("ROLLBACK");
        }
        committed
    }

    fn transact(&mut self, group: &mut Group, reserve: &Result<(), StoreError>) -> Result<(), GroupError> {
        self.db.execute_batch("BEGIN IMMEDIATE").map_err(GroupError::Transaction)?;
        self.file.check_identity().map_err(GroupError::LostFile)?;
        // Before the group's own changes, which must not hide those of others.
        self.wake_for_foreign_commits();
        self.has_due_events = false;
        for command in group {
            let now = self.clock.now();
            self.clock_repair.observe(now);
            let (random, rotation) = (&mut self.random, &mut self.rotation);
            let (clock_repair, has_due_events) = (&mut self.clock_repair, &mut self.has_due_events);
            let mut context =
                WriteContext { db: &self.db, now, random, rotation, clock_repair, has_due_events, reserve };
            command.run(&mut context).map_err(|error| GroupError::Command(Cause::Sqlite(error)))?;
        }
        self.db.execute_batch("COMMIT").map_err(GroupError::Transaction)?;
        // The file may have been deleted since the first check, and the commit with it.
        self.file.check_identity().map_err(GroupError::LostFile)
    }

    fn to_store_error(&self, error: &GroupError) -> StoreError {
        match error {
            GroupError::Transaction(error) | GroupError::Command(Cause::Sqlite(error)) => {
                self.file.to_store_error(error)
            }
            GroupError::LostFile(error) => error.clone(),
            GroupError::Command(Cause::Panic(message)) => {
                tracing::error!(message, "a command of the SQLite store panicked and was rolled back");
                StoreError::Rejected {
                    reason: format!("the command panicked and was rolled back: {message}"),
                }
            }
        }
    }
}

/// Why a group was not committed.
#[derive(Debug)]
enum GroupError {
    /// SQLite could not begin or commit the transaction.
    Transaction(rusqlite::Error),
    /// The database file was deleted or replaced.
    LostFile(StoreError),
    /// One command of the group failed.
    Command(Cause),
}

impl GroupError {
    /// Returns whether a file could not grow: the disk is full, or a quota is used up.
    fn is_out_of_space(&self) -> bool {
        let (Self::Transaction(error) | Self::Command(Cause::Sqlite(error))) = self else { return false };
        error.sqlite_error().is_some_and(|error| {
            error.code == ErrorCode::DiskFull || error.extended_code == ffi::SQLITE_IOERR_WRITE
        })
    }
}

/// Why a command failed.
#[derive(Debug)]
enum Cause {
    Sqlite(rusqlite::Error),
    Panic(String),
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests;
