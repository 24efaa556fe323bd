//! A call on its way through the writer: what to do, and whom to answer once it is committed.

use posthaste_domain::Timestamp;
use posthaste_store::StoreError;
use rand::rngs::StdRng;
use rusqlite::Connection;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use crate::claim::Rotation;
use crate::fault::Fault;

/// What a command has at hand inside the group's transaction.
pub(crate) struct Writing<'a> {
    pub(crate) db: &'a Connection,
    /// Read while the write lock is held, so that commits and moments have one order.
    pub(crate) now: Timestamp,
    pub(crate) random: &'a mut StdRng,
    pub(crate) rotation: &'a mut Rotation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Heartbeats go first: a lease that expires because its renewal waited is work done twice.
    Renewal,
    /// Something may be due once it is committed, and whoever waits for that is woken.
    MakesDue,
    Other,
}

/// A call as the writer sees it, whatever it returns.
pub(crate) trait Command: Send {
    fn kind(&self) -> Kind;
    /// False once its caller has gone away or given up.
    fn is_awaited(&self) -> bool;
    /// Runs inside a transaction and keeps its answer. May be run again after a rollback.
    fn run(&mut self, writing: &mut Writing<'_>) -> rusqlite::Result<()>;
    /// Tells the caller, after the commit or instead of it.
    fn answer(self: Box<Self>, committed: Result<(), StoreError>);
}

pub(crate) struct Call<T, F> {
    pub(crate) kind: Kind,
    pub(crate) work: F,
    pub(crate) kept: Option<Result<T, StoreError>>,
    pub(crate) reply: oneshot::Sender<Result<T, StoreError>>,
    /// Its place in the queue, free again when it has been answered.
    pub(crate) _place: OwnedSemaphorePermit,
}

impl<T, F> Command for Call<T, F>
where
    T: Send,
    F: FnMut(&mut Writing<'_>) -> Result<T, Fault> + Send,
{
    fn kind(&self) -> Kind {
        self.kind
    }

    fn is_awaited(&self) -> bool {
        !self.reply.is_closed()
    }

    fn run(&mut self, writing: &mut Writing<'_>) -> rusqlite::Result<()> {
        self.kept = Some(match (self.work)(writing) {
            Ok(answer) => Ok(answer),
            Err(Fault::Refused(error)) => Err(error),
            Err(Fault::Sqlite(error)) => return Err(error),
        });
        Ok(())
    }

    fn answer(self: Box<Self>, committed: Result<(), StoreError>) {
        let answer = match committed {
            Ok(()) => self.kept.expect("a group is committed after each of its commands ran"),
            Err(error) => Err(error),
        };
        // A caller that has gone away does not want to know.
        let _ = self.reply.send(answer);
    }
}
