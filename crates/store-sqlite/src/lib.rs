//! The embedded store: one SQLite file, one writer thread, shared commits.
//!
//! ```text
//! enqueue, claim, renew, settle, …  ─► queue ─► writer thread ─► one transaction for all queued calls ─► results
//! overview, dead_letters, events, … ─► queue ─► reader threads, each on its own snapshot
//! ```
//!
//! Every write is durable before it is acknowledged. Several processes may open one file: each has its own writer
//! thread, SQLite lets one of them write at a time, and leases are fenced by their tokens. The modules mirror those of
//! `posthaste-store`. Each statement is next to the code that uses it, with a comment that names its index.
//!
//! An application with business tables in the same file can enqueue inside its own transaction: with
//! [`SqliteStore::enqueue_in`], or in any language through the views `webhook_publish` and `webhook_enqueue`.
#![forbid(unsafe_code)]

mod activity;
mod bulk;
mod check;
mod checkpoint;
mod claim;
mod claims;
mod clock;
mod clock_repair;
mod command;
mod connect;
mod database_file;
mod destination;
mod destination_queue;
mod destination_view;
mod enqueue;
mod error;
mod expire;
mod foreign_commits;
mod free_space;
mod job_queue;
mod key_runs;
mod lease;
mod maintain;
mod migrate;
mod notices;
mod open;
mod operate;
#[cfg(test)]
mod query_plans;
mod read;
mod reader_pool;
mod registry;
mod remove;
mod replay;
mod row;
mod search;
mod secrets;
mod settings;
mod settle;
mod thread_group;
mod token_seed;
mod totals;
mod unused_destinations;
mod write_probe;
mod writer;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, NewEvent, WorkerId};
use posthaste_store::{
    ActionRequest, Activity, Answers, Applications, AuditView, BulkOperations, CircuitReport, ClaimRequest,
    ClaimResponse, DeadLetterQuery, DestinationDetail, DestinationState, DestinationStatus, DestinationView,
    Endpoints, EnqueueRequest, EnqueueResponse, EventContent, EventDetail, EventQuery, EventTypes, EventView,
    ExpireRequest, ExpireResponse, LeaseRef, MaintenanceReport, Messages, NoticeCursor, NoticePage,
    Operations, Overview, Page, PageRequest, PauseRequest, ProbeResponse, Receipt, Retention, RotateRequest,
    SettleResult, Settlement, Store, StoreClock, StoreError, StoreHealth, StoredSecret, Waker, Wakeups,
};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rusqlite::Connection;

use checkpoint::Checkpointer;
use claim::ClaimRotation;
use clock_repair::ClockRepair;
use command::{CommandKind, WriteContext};
use database_file::DatabaseFile;
use error::CallError;
use foreign_commits::ForeignCommits;
use maintain::MaintenanceCursor;
use operate::OwnedActionRequest;
use reader_pool::ReaderPool;
use writer::{Writer, WriterThread};

pub use check::{FileCheck, check};
pub use clock::SystemClock;
pub use migrate::{MigrationReport, check_schema, inspect, migrate};
pub use open::{OpenError, Options, system_rng};
/// The rusqlite version whose transactions [`SqliteStore::enqueue_in`] accepts.
pub use rusqlite;
pub use settings::SqlProducerDefaults;

/// A store on an SQLite file. Clones are cheap handles to the same threads, which end when the last handle is dropped or
/// any handle is closed.
#[derive(Clone)]
pub struct SqliteStore {
    shared: Arc<Shared>,
}

struct Shared {
    readers: ReaderPool,
    writer: Writer,
    clock: Arc<dyn StoreClock>,
    waker: Waker,
    call_timeout: Duration,
    file: Arc<DatabaseFile>,
    /// Where the next maintenance step continues its walks.
    maintenance_cursor: Arc<Mutex<MaintenanceCursor>>,
    /// Set when a worker subscribes to wake-ups: from then on the writer watches for commits of other processes.
    has_worker: Arc<AtomicBool>,
    /// Source of message ids for [`SqliteStore::enqueue_in`], which runs on its caller's thread.
    random: Mutex<StdRng>,
}

impl Shared {
    /// Closes the readers, then the writer, and returns whether all threads exited in time. The writer is last: only a
    /// read-write connection copies the write-ahead log into the file, and only after all other connections are closed.
    fn close(&self) -> bool {
        let readers_closed = self.readers.close();
        self.writer.close();
        readers_closed && self.writer.join()
    }

    /// Returns a new generator for one caller, so that callers do not hold the lock during their transactions.
    fn fork_random(&self) -> StdRng {
        StdRng::from_rng(&mut *self.random.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SqliteStore {
    /// Opens a database file, creates it if it does not exist, and applies missing migrations. Lease tokens and message
    /// ids are drawn from `random`; in production pass [`system_rng`].
    pub fn open(
        path: impl AsRef<Path>,
        clock: Arc<dyn StoreClock>,
        mut random: StdRng,
        options: Options,
    ) -> Result<Self, OpenError> {
        let path = open::absolute_path(path.as_ref())?;
        let db = connect::open_writer(&path, options.busy_timeout)?;
        migrate::migrate_to_latest(&db, &path)?;
        // The store starts all the same: its health reports writes that fail.
        for problem in migrate::find_schema_problems(&db, &path)? {
            tracing::error!(
                problem,
                "the schema is not what it should be; `posthaste doctor` lists all problems"
            );
        }
        let file = DatabaseFile::identify(path.clone()).map_err(|source| OpenError::Lost { path, source })?;
        let file = Arc::new(file);
        let (waker, has_worker) = (Waker::default(), Arc::<AtomicBool>::default());
        let writer_thread = WriterThread {
            foreign_commits: ForeignCommits::new(Arc::clone(&has_worker)),
            checkpointer: Checkpointer::start(file.path().to_owned()).map_err(OpenError::Thread)?,
            db,
            file: Arc::clone(&file),
            clock: Arc::clone(&clock),
            random: StdRng::from_rng(&mut random),
            waker: waker.clone(),
            rotation: ClaimRotation::default(),
            clock_repair: ClockRepair::default(),
            has_due_events: false,
            failing: Arc::default(),
        };
        let shared = Shared {
            maintenance_cursor: Arc::default(),
            has_worker,
            readers: ReaderPool::new(Arc::clone(&file), options.busy_timeout),
            writer: Writer::start(writer_thread).map_err(OpenError::Thread)?,
            clock,
            waker,
            call_timeout: options.call_timeout,
            file,
            random: Mutex::new(random),
        };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// Enqueues events inside the caller's transaction, on a connection to the same file. The events exist once that
    /// transaction commits. All or none are stored, and an error leaves the transaction unchanged. Call [`wake`] after
    /// the commit, or let polling find the events.
    ///
    /// The durability of the commit depends on the caller's connection: leave `PRAGMA synchronous` at `FULL`.
    ///
    /// [`wake`]: SqliteStore::wake
    pub fn enqueue_in(
        &self,
        transaction: &rusqlite::Transaction<'_>,
        events: &[NewEvent],
    ) -> Result<Vec<Receipt>, StoreError> {
        let mut random = self.shared.fork_random();
        let stored = within_savepoint(transaction, || {
            enqueue::enqueue_events(transaction, self.shared.clock.now(), &mut random, events, None)
        });
        stored.map_err(|error| error.into_store_error(&self.shared.file))
    }

    /// Finishes the queued calls and closes the file, for all handles; later calls fail as unavailable. Unless another
    /// process uses the file, it then contains all data and has no write-ahead log beside it.
    ///
    /// Waits a few seconds for the threads to exit. Returns false if one is still busy then. The write-ahead log then
    /// remains beside the file for the next start, and no data is lost.
    pub fn close(&self) -> bool {
        self.shared.close()
    }

    /// Wakes the workers of this process, because events may have become due.
    pub fn wake(&self) {
        self.shared.waker.wake();
    }

    /// Stores the defaults and limits that the views `webhook_publish` and `webhook_enqueue` apply.
    pub async fn set_sql_producer_defaults(&self, defaults: SqlProducerDefaults) -> Result<(), StoreError> {
        self.write(CommandKind::Other, move |context| Ok(settings::store_defaults(context.db, defaults)?))
            .await
    }

    /// Runs `work` on the writer thread.
    async fn write<T, F>(&self, kind: CommandKind, work: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnMut(&mut WriteContext<'_>) -> Result<T, CallError> + Send + 'static,
    {
        self.with_timeout(self.shared.writer.call(kind, work)).await
    }

    /// Runs `query` on a reader thread.
    async fn read<T, F>(&self, query: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, CallError> + Send + 'static,
    {
        self.with_timeout(self.shared.readers.call(query)).await
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "a safety timeout: a disk that never responds becomes an error instead of a hang"
    )]
    async fn with_timeout<T>(
        &self,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.shared.call_timeout;
        tokio::time::timeout(limit, call).await.unwrap_or_else(|_| {
            let file = self.shared.file.path().display();
            let reason = format!(
                "{file} did not respond within {limit:?}; check the disk and other processes that write to it"
            );
            Err(StoreError::Unavailable { reason })
        })
    }
}

/// Runs `work` in a savepoint, so that its failure undoes its own writes and nothing else of the caller's transaction.
fn within_savepoint<T>(db: &Connection, work: impl FnOnce() -> Result<T, CallError>) -> Result<T, CallError> {
    db.execute_batch("SAVEPOINT posthaste_enqueue")?;
    let result = work();
    if result.is_err() {
        // Fails if SQLite has ended the transaction, as it does when the disk is full.
        let _ = db.execute_batch("ROLLBACK TO posthaste_enqueue; RELEASE posthaste_enqueue");
        return result;
    }
    db.execute_batch("RELEASE posthaste_enqueue")?;
    result
}

#[async_trait]
impl Store for SqliteStore {
    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let kind = CommandKind::Enqueue { events: request.events.len() };
        self.write(kind, move |context| {
            context.reserve.clone()?;
            let response = enqueue::enqueue(context.db, context.now, context.random, &request)?;
            *context.has_due_events |= response.leaves_events_to_claim();
            Ok(response)
        })
        .await
    }

    fn wakeups(&self) -> Wakeups {
        self.shared.has_worker.store(true, Ordering::Relaxed);
        self.shared.writer.nudge();
        self.shared.waker.subscribe()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let request = request.clone();
        self.write(CommandKind::Other, move |context| claim::claim(context, &request)).await
    }

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        self.read(move |db| lease::read_payload(db, lease)).await
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let held = held.to_vec();
        self.write(CommandKind::Renewal, move |context| lease::renew(context.db, context.now, &held, lease))
            .await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let (worker, batch) = (worker.clone(), batch.to_vec());
        self.write(CommandKind::Other, move |context| {
            settle::settle(context.db, context.now, &worker, &batch)
        })
        .await
    }

    async fn release(&self, held: &[LeaseRef]) -> Result<(), StoreError> {
        let held = held.to_vec();
        self.write(CommandKind::MakesDue, move |context| lease::release(context.db, context.now, &held)).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| read::overview(db, clock.now())).await
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        let (query, page) = (query.clone(), *page);
        self.read(move |db| search::dead_letters(db, &query, &page)).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        let (query, page) = (query.clone(), *page);
        self.read(move |db| search::events(db, &query, &page)).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        let event_id = event_id.clone();
        self.read(move |db| read::event(db, &event_id)).await
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let (event_id, request) = (event_id.clone(), OwnedActionRequest::from(request));
        self.write(CommandKind::MakesDue, move |context| {
            operate::requeue(context.db, context.now, &event_id, request.as_ref())
        })
        .await
    }

    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let (event_id, request) = (event_id.clone(), OwnedActionRequest::from(request));
        self.write(CommandKind::MakesDue, move |context| {
            replay::replay(context.db, context.now, &event_id, request.as_ref())
        })
        .await
    }

    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError> {
        let (event_id, actor) = (event_id.clone(), actor.to_owned());
        self.write(CommandKind::Other, move |context| {
            replay::event_content(context.db, context.now, &event_id, &actor, payload_bytes_max)
        })
        .await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        let (event_id, reason) = (event_id.clone(), reason.map(str::to_owned));
        let request = OwnedActionRequest::from(request);
        self.write(CommandKind::Other, move |context| {
            operate::cancel(context.db, context.now, &event_id, request.as_ref(), reason.as_deref())
        })
        .await
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        let (event_id, reason) = (event_id.clone(), reason.map(str::to_owned));
        let request = OwnedActionRequest::from(request);
        self.write(CommandKind::Other, move |context| {
            operate::discard(context.db, context.now, &event_id, request.as_ref(), reason.as_deref())
        })
        .await
    }

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let request = *request;
        self.write(CommandKind::Other, move |context| expire::expire(context.db, context.now, &request)).await
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        let (clock, page) = (Arc::clone(&self.shared.clock), *page);
        self.read(move |db| destination_view::list(db, clock.now(), state, &page)).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| destination_view::read_detail(db, clock.now(), id)).await
    }

    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| destination_view::read_status(db, clock.now(), id)).await
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        let pause = pause.clone();
        self.write(CommandKind::Other, move |context| destination::pause(context.db, context.now, id, &pause))
            .await
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        let actor = actor.to_owned();
        self.write(CommandKind::MakesDue, move |context| {
            destination::resume(context.db, context.now, id, &actor)
        })
        .await
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        let actor = actor.to_owned();
        self.write(CommandKind::MakesDue, move |context| {
            destination::probe(context.db, context.now, id, &actor)
        })
        .await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        let reports = reports.to_vec();
        self.write(CommandKind::Other, move |context| {
            destination::report_circuits(context.db, context.now, &reports)
        })
        .await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.read(move |db| notices::read_notices(db, after, limit)).await
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        let (clock, file) = (Arc::clone(&self.shared.clock), Arc::clone(&self.shared.file));
        let read = self.read(move |db| {
            let has_room = free_space::check_reserve(db, file.path()).is_ok();
            Ok((migrate::read_health(db, clock.now())?, has_room))
        });
        let (health, has_room) = read.await?;
        self.shared.file.check()?;
        // The writer tries to make room, as it does for new events.
        if !has_room {
            self.write(CommandKind::Enqueue { events: 0 }, |context| Ok(context.reserve.clone()?)).await?;
        }
        // Reading works on a full disk, so after a failed write only another write shows whether SQLite can write again.
        if self.shared.writer.is_failing() {
            self.write(CommandKind::Other, |context| write_probe::probe_write(context.db)).await?;
        }
        Ok(health)
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        self.write(CommandKind::Other, |context| write_probe::probe_small_write(context.db)).await
    }

    fn wal_bytes(&self) -> Option<u64> {
        self.shared.file.wal_bytes()
    }

    async fn add_first_secret(&self, first: &Secret) -> Result<(), StoreError> {
        let first = first.clone();
        self.write(CommandKind::Other, move |context| secrets::add_first(context.db, context.now, &first))
            .await
    }

    async fn signing_secrets(&self) -> Result<Vec<StoredSecret>, StoreError> {
        let clock = Arc::clone(&self.shared.clock);
        self.read(move |db| secrets::valid_secrets(db, clock.now())).await
    }

    async fn rotate_secret(&self, request: RotateRequest<'_>) -> Result<Vec<StoredSecret>, StoreError> {
        let RotateRequest { secret, grace, actor } = request;
        let rotation = secrets::OwnedRotation { secret: secret.clone(), grace, actor: actor.to_owned() };
        self.write(CommandKind::Other, move |context| secrets::rotate(context.db, context.now, &rotation))
            .await
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let (retention, cursor) = (*retention, Arc::clone(&self.shared.maintenance_cursor));
        self.write(CommandKind::Other, move |context| {
            let mut cursor = cursor.lock().unwrap_or_else(PoisonError::into_inner);
            maintain::maintain(context.db, context.now, &mut cursor, &retention)
        })
        .await
    }

    fn applications(&self) -> &dyn Applications {
        self
    }

    fn endpoints(&self) -> &dyn Endpoints {
        self
    }

    fn event_types(&self) -> &dyn EventTypes {
        self
    }

    fn messages(&self) -> &dyn Messages {
        self
    }

    fn operations(&self) -> &dyn Operations {
        self
    }

    fn bulk(&self) -> &dyn BulkOperations {
        self
    }

    fn answers(&self) -> &dyn Answers {
        self
    }

    fn activity(&self) -> &dyn Activity {
        self
    }
}
