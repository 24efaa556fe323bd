//! The embedded store: one SQLite file, one thread that writes, commits shared.
//!
//! ```text
//! enqueue, claim, renew, settle, …  ─► queue ─► writer thread ─► one transaction for all that wait ─► answers
//! overview, dead_letters, events, … ─► queue ─► reader threads, each on its own snapshot
//! ```
//!
//! Every write is durable before it is acknowledged. Several processes may open one file: each has its writer, SQLite
//! lets one of them write at a time, and leases are fenced by their tokens. The files mirror the port's; statements
//! stand where they are used, with the index that serves them named beside them.
//!
//! Whoever keeps business tables in the same file can enqueue inside a transaction of their own:
//! [`SqliteStore::enqueue_in`].
#![forbid(unsafe_code)]

mod call;
mod claim;
mod claims;
mod clock;
mod connect;
mod destination;
mod ending;
mod enqueue;
mod fault;
mod lease;
mod line;
mod maintain;
mod migrate;
mod notices;
mod open;
mod operate;
#[cfg(test)]
mod plans;
mod queue;
mod read;
mod reader;
mod rehearse;
mod row;
mod secrets;
mod settle;
mod totals;
mod writer;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, NewEvent, WorkerId};
use posthaste_store::{
    CircuitReport, ClaimRequest, Claimed, DestinationState, EnqueueRequest, Enqueued, EventDetail,
    EventQuery, EventView, HeldLease, Maintained, NoticeCursor, NoticePage, Overview, Page, PageRequest,
    Receipt, Retention, Settled, Settlement, Store, StoreClock, StoreError, Vitals, Waker, Wakeups,
};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rusqlite::Connection;

use call::{Kind, Writing};
use claim::Rotation;
use fault::Fault;
use reader::Readers;
use writer::{Session, Writer};

pub use clock::SystemClock;
pub use migrate::{Migrated, examine, migrate};
pub use open::{OpenError, Options, entropy};
/// The version that [`SqliteStore::enqueue_in`] takes transactions of.
pub use rusqlite;

/// Handles are cheap to clone and share one writer; the threads end with the last of them, or when one is closed.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    readers: Readers,
    writer: Writer,
    clock: Arc<dyn StoreClock>,
    waker: Waker,
    answer_within: Duration,
    path: std::path::PathBuf,
    /// For [`SqliteStore::enqueue_in`], which runs on its caller's thread.
    random: Mutex<StdRng>,
}

impl Shared {
    /// The writer goes last: only a connection that may write takes what is in the log into the file, and only when
    /// nobody reads beside it any more.
    fn close(&self) -> bool {
        let nobody_reads = self.readers.close();
        self.writer.end();
        nobody_reads && self.writer.has_ended()
    }

    /// A generator of the caller's own: nobody waits for another's transaction.
    fn fork_random(&self) -> StdRng {
        StdRng::from_rng(&mut *self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SqliteStore {
    /// Opens a database file, creates it where there is none, and brings its schema up to date. `random` feeds lease
    /// tokens and message ids; in production it comes from [`entropy`].
    pub fn open(
        path: impl AsRef<Path>,
        clock: Arc<dyn StoreClock>,
        mut random: StdRng,
        options: Options,
    ) -> Result<Self, OpenError> {
        let path = open::absolute(path.as_ref())?;
        let db = connect::writer(&path, options.busy_timeout)?;
        migrate::bring_up_to_date(&db, &path)?;
        let waker = Waker::default();
        let session = Session {
            db,
            path: path.clone(),
            clock: Arc::clone(&clock),
            random: StdRng::from_rng(&mut random),
            waker: waker.clone(),
            rotation: Rotation::default(),
            failing: Arc::default(),
        };
        let shared = Shared {
            readers: Readers::new(path.clone(), options.busy_timeout),
            writer: Writer::start(session).map_err(OpenError::Thread)?,
            clock,
            waker,
            answer_within: options.answer_within,
            path,
            random: Mutex::new(random),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Enqueues inside a transaction of the caller's, on a connection to the same file: the events exist if and when
    /// that commits. They are stored all or none, and an error leaves the transaction as it was. Ring [`wake`]
    /// after the commit, or let polling find them.
    ///
    /// The commit is as durable as the caller's connection makes it: leave `PRAGMA synchronous` at `FULL`.
    ///
    /// [`wake`]: SqliteStore::wake
    pub fn enqueue_in(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        events: &[NewEvent],
    ) -> Result<Vec<Receipt>, StoreError> {
        let mut random = self.shared.fork_random();
        let stored = within_savepoint(transaction, || {
            enqueue::enqueue_events(transaction, self.shared.clock.now(), &mut random, events)
        });
        stored.map_err(|fault| fault.into_store_error(&self.shared.path))
    }

    /// Finishes what has been asked for and closes the file, for all handles: calls that come later are answered as
    /// unavailable. Unless other processes use it, the file then holds everything, and has no log beside it.
    ///
    /// Waits for its threads, seconds at most. False where one is still busy then; the log stays beside the file, to be
    /// read at the next start, and nothing is lost.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Tells workers of this process that something may have become due.
    pub fn wake(&self) {
        self.shared.waker.wake();
    }

    async fn write<T, F>(&self, kind: Kind, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut Writing<'_>) -> Result<T, Fault> + Send + 'static,
    {
        self.answered(self.shared.writer.call(kind, work)).await
    }

    async fn read<T, F>(&self, look: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    {
        self.answered(self.shared.readers.call(look)).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "nothing waits for this bound; it makes a disk that never answers an error instead of a hang"
    )]
    async fn answered<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        let limit = self.shared.answer_within;
        tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
            let file = self.shared.path.display();
            let reason =
                format!("{file} did not answer within {limit:?}; check the disk, and who else writes to it");
            Err(StoreError::Unavailable { reason })
        })
    }
}

/// What fails half-way in somebody else's transaction is undone, and nothing else of it.
fn within_savepoint<T>(db: &Connection, work: impl FnOnce() -> Result<T, Fault>) -> Result<T, Fault> {
    db.execute_batch("SAVEPOINT posthaste_enqueue")?;
    let done = work();
    if done.is_err() {
        // May fail where SQLite has ended the transaction by itself, as it does when the disk is full.
        let _ = db.execute_batch("ROLLBACK TO posthaste_enqueue; RELEASE posthaste_enqueue");
        return done;
    }
    db.execute_batch("RELEASE posthaste_enqueue")?;
    done
}

#[async_trait]
impl Store for SqliteStore {
    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        let batch = batch.to_vec();
        self.write(Kind::MakesDue, move |Writing { db, now, random, .. }| {
            batch.iter().map(|request| answer(enqueue::enqueue(db, *now, random, request))).collect()
        })
        .await
    }

    fn wakeups(&self) -> Wakeups {
        self.shared.waker.subscribe()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let request = request.clone();
        self.write(Kind::Other, move |writing| claim::claim(writing, &request)).await
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        let held = held.to_vec();
        self.write(Kind::Renewal, move |writing| lease::renew(writing.db, writing.now, &held, lease)).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let (worker, batch) = (worker.clone(), batch.to_vec());
        self.write(Kind::Other, move |writing| settle::settle(writing.db, writing.now, &worker, &batch)).await
    }

    async fn release(&self, held: &[HeldLease]) -> Result<(), StoreError> {
        let held = held.to_vec();
        self.write(Kind::MakesDue, move |writing| lease::release(writing.db, writing.now, &held)).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| read::overview(db, clock.now())).await
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        let page = *page;
        self.read(move |db| read::dead_letters(db, &page)).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        let (query, page) = (query.clone(), *page);
        self.read(move |db| read::events(db, &query, &page)).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        let event_id = event_id.clone();
        self.read(move |db| read::event(db, &event_id)).await
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        let (event_id, actor) = (event_id.clone(), actor.to_owned());
        self.write(Kind::MakesDue, move |writing| {
            operate::requeue(writing.db, writing.now, &event_id, &actor)
        })
        .await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        let (event_id, actor, reason) = (event_id.clone(), actor.to_owned(), reason.map(str::to_owned));
        self.write(Kind::Other, move |writing| {
            operate::cancel(writing.db, writing.now, &event_id, &actor, reason.as_deref())
        })
        .await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| destination::destination(db, clock.now(), id)).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        let reports = reports.to_vec();
        self.write(Kind::Other, move |writing| {
            destination::report_circuits(writing.db, writing.now, &reports)
        })
        .await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.read(move |db| notices::notices(db, after, limit)).await
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        let vitals = self.read(move |db| Ok(migrate::vitals(db, clock.now())?)).await?;
        // A full disk can be read well enough. Only somebody's write finds out, and only another that it is over.
        if self.shared.writer.is_failing() {
            self.write(Kind::Other, |writing| rehearse::rehearse(writing.db)).await?;
        }
        Ok(vitals)
    }

    async fn signing_secrets(&self, first: &Secret) -> Result<Vec<Secret>, StoreError> {
        let first = first.clone();
        self.write(Kind::Other, move |writing| secrets::valid(writing.db, writing.now, &first)).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        let retention = *retention;
        self.write(Kind::Other, move |writing| maintain::maintain(writing.db, writing.now, &retention)).await
    }
}

/// A refusal is the answer to its own request; only SQLite fails a whole batch.
fn answer<T>(outcome: Result<T, Fault>) -> Result<Result<T, StoreError>, Fault> {
    match outcome {
        Ok(answer) => Ok(Ok(answer)),
        Err(Fault::Refused(error)) => Ok(Err(error)),
        Err(fault @ Fault::Sqlite(_)) => Err(fault),
    }
}
