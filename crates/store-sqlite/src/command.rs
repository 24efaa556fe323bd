//! Calls queued for the writer thread: the work to run, and the channel that receives the result after the commit.

use std::sync::{Arc, Mutex, PoisonError};

use posthaste_domain::Timestamp;
use posthaste_store::StoreError;
use rand::rngs::StdRng;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::claim::ClaimRotation;
use crate::clock_repair::ClockRepair;
use crate::error::CallError;

/// The connection, time and random numbers that a command uses inside the group's transaction.
pub(crate) struct WriteContext<'a> {
    pub(crate) db: &'a Connection,
    /// Read while the write lock is held, so that timestamps follow the order of commits.
    pub(crate) now: Timestamp,
    pub(crate) random: &'a mut StdRng,
    pub(crate) rotation: &'a mut ClaimRotation,
    pub(crate) clock_repair: &'a mut ClockRepair,
    /// Set by an enqueue that leaves events for a claim: the writer wakes the workers after the commit.
    pub(crate) has_due_events: &'a mut bool,
    /// Whether the disk has room for new events. Results of older events are written in any case.
    pub(crate) reserve: &'a Result<(), StoreError>,
}

/// The kind of a command. It determines the command's order within a group, and whether the writer wakes the workers
/// after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommandKind {
    /// Renewals run first: a lease that expires while its renewal is queued makes another worker repeat the delivery.
    Renewal,
    /// Inserts this many events, and sets [`WriteContext::has_due_events`] if they are not all leased.
    Enqueue {
        events: usize,
    },
    /// The commit may make events due, so the writer wakes the workers after it.
    MakesDue,
    Other,
}

impl CommandKind {
    /// Returns true if any commit of this kind may make events due.
    pub(crate) const fn makes_due(self) -> bool {
        matches!(self, Self::MakesDue)
    }
}

/// A queued call, independent of its result type.
pub(crate) trait Command: Send {
    fn kind(&self) -> CommandKind;
    /// Takes the work from the caller. Returns false once the caller has dropped its future or timed out.
    fn take_work(&mut self) -> bool;
    /// Runs the work inside a transaction and keeps its result. May run again after a rollback.
    fn run(&mut self, context: &mut WriteContext<'_>) -> rusqlite::Result<()>;
    /// Sends the caller the result of [`run`](Self::run) if the group was committed, and the error otherwise.
    fn respond(self: Box<Self>, committed: Result<(), StoreError>);
}

/// Work that the caller can withdraw for as long as the thread has not taken it.
pub(crate) struct SharedWork<F>(Arc<Mutex<Option<F>>>);

impl<F> SharedWork<F> {
    pub(crate) fn new(work: F) -> Self {
        Self(Arc::new(Mutex::new(Some(work))))
    }

    fn take(&self) -> Option<F> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Returns a guard that withdraws the work when it is dropped.
    pub(crate) fn withdraw_on_drop(&self) -> WithdrawOnDrop<F> {
        WithdrawOnDrop(Self(Arc::clone(&self.0)))
    }
}

/// Withdraws a call's work when its caller goes away.
pub(crate) struct WithdrawOnDrop<F>(SharedWork<F>);

impl<F> Drop for WithdrawOnDrop<F> {
    fn drop(&mut self) {
        drop(self.0.take());
    }
}

/// A call with its work, its result once it ran, and the channel back to its caller.
pub(crate) struct PendingCall<T, F> {
    pub(crate) kind: CommandKind,
    /// Empty once the caller has gone away: its payloads must not stay in memory while the thread is busy.
    pub(crate) shared_work: SharedWork<F>,
    /// The work, once the thread has taken it.
    pub(crate) work: Option<F>,
    pub(crate) result: Option<Result<T, StoreError>>,
    pub(crate) reply: oneshot::Sender<Result<T, StoreError>>,
    /// Queue capacity that this call occupies; released when the call is dropped.
    pub(crate) _permit: OwnedSemaphorePermit,
}

impl<T, F> Command for PendingCall<T, F>
where
    T: Send,
    F: FnMut(&mut WriteContext<'_>) -> Result<T, CallError> + Send,
{
    fn kind(&self) -> CommandKind {
        self.kind
    }

    fn take_work(&mut self) -> bool {
        if self.work.is_none() {
            self.work = self.shared_work.take();
        }
        self.work.is_some() && !self.reply.is_closed()
    }

    fn run(&mut self, context: &mut WriteContext<'_>) -> rusqlite::Result<()> {
        self.result =
            Some(match self.work.as_mut().expect("the thread takes the work before it runs it")(context) {
                Ok(value) => Ok(value),
                Err(CallError::Refused(error)) => Err(error),
                Err(CallError::Sqlite(error)) => return Err(error),
            });
        Ok(())
    }

    fn respond(self: Box<Self>, committed: Result<(), StoreError>) {
        let result = match committed {
            Ok(()) => self.result.expect("every command of a group runs before the group is committed"),
            Err(error) => Err(error),
        };
        // The send fails when the caller has dropped its future; the result is then not needed.
        let _ = self.reply.send(result);
    }
}
