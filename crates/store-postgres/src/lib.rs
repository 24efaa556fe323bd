//! The store for many workers: PostgreSQL, 13 and newer.
//!
//! The modules are named after the operations of the `Store` trait. Each statement is beside the code that runs it,
//! with the index that serves it.
//!
//! - Each process *discovers* claimable rows and keeps them in an in-memory index (`posthaste-claimable`). A claim names the
//!   destinations and ranges that it can send, so its cost does not grow with the backlog.
//! - A call is usually one transaction in one round trip. Leases, delays and dates use the server's clock.
//! - Each call takes a connection from the pool of its purpose. After an error the connection is closed and the next
//!   call connects again. Callers retry without limit.
#![forbid(unsafe_code)]

mod activity;
mod bulk;
mod claim;
mod clock_repair;
mod config;
mod content;
mod convert;
mod counts;
mod defaults;
mod destination;
mod destination_view;
mod discard;
mod discover;
mod enqueue;
mod error;
mod event;
mod expire;
mod expiry_check;
mod fail;
mod housekeeping;
mod lease;
mod list;
mod listen;
mod maintain;
mod migrate;
mod notices;
mod operate;
mod operation;
mod outstanding;
mod payload;
mod read;
mod registry;
mod replay;
mod schema;
mod schema_check;
mod secrets;
mod session;
mod settle;
mod sweep;
mod tls;
mod wake;
mod watermark;
mod write_check;

use std::sync::Arc;
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
    SettleResult, Settlement, Store, StoreError, StoreHealth, StoredSecret, Waker, Wakeups,
};
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;

pub use config::{InvalidUrl, PostgresConfig, PostgresUrl};
pub use defaults::EnqueueFunctionDefaults;
pub use enqueue::{CallerError, enqueue_in, enqueue_in_schema};
pub use migrate::{MigrateError, MigrationReport, check_schema, inspect, migrate, supported_schema_version};
pub use schema::{InvalidSchemaName, SchemaName};
/// The driver, in the version whose transactions [`enqueue_in`] accepts.
pub use tokio_postgres;

use claim::{BlockedDestinations, DiscoveryState};
use clock_repair::ClockRepair;
use enqueue::{DestinationIds, EnqueueQueue};
use maintain::RetentionCursors;
use notices::CommittedNotices;
use outstanding::OutstandingLeases;
use payload::PayloadReads;
use session::SessionPools;
use write_check::WriteCheck;

/// A store on PostgreSQL. Clones are cheap and share connections and state.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<StoreState>,
}

/// The state that all clones of a store and its background tasks share.
pub(crate) struct StoreState {
    config: PostgresConfig,
    sessions: SessionPools,
    /// Wakes the workers of this process when events may have become due.
    waker: Waker,
    discovery: Mutex<DiscoveryState>,
    outstanding: OutstandingLeases,
    blocked: BlockedDestinations,
    destination_ids: DestinationIds,
    enqueue_queue: EnqueueQueue,
    committed_notices: CommittedNotices,
    payload_reads: PayloadReads,
    retention_cursors: Mutex<RetentionCursors>,
    /// Requests a notification of the workers of other processes.
    ring_request: Arc<Notify>,
    /// Requests a sweep before the next periodic one.
    sweep_request: Arc<Notify>,
    clock_repair: ClockRepair,
    write_check: WriteCheck,
    background: std::sync::Mutex<Vec<AbortHandle>>,
}

impl PostgresStore {
    /// Migrates the schema, then connects like [`Self::connect`].
    pub async fn open(config: PostgresConfig) -> Result<Self, MigrateError> {
        migrate(&config).await?;
        // The store starts all the same: a missing index slows it down, and its health reports writes that fail.
        for problem in check_schema(&config).await? {
            tracing::error!(
                problem,
                "the schema is not what it should be; `posthaste doctor` lists all problems"
            );
        }
        let store = Self::connect(config);
        // Attempts of a day without a partition go to the default partition, and maintenance tries again.
        if let Err(error) = store.shared.sessions.dispatch.with(maintain::create_partitions).await {
            tracing::debug!(code = error.code(), %error, "partitions not created; maintenance tries again");
        }
        Ok(store)
    }

    /// Tries the writes of an enqueue, a claim and a settle on a database whose schema is current, and undoes them.
    pub async fn try_writes(config: &PostgresConfig) -> Result<(), StoreError> {
        write_check::run(&SessionPools::new(config)).await
    }

    /// Stores the settings that `app.enqueue_webhook` applies to events of SQL producers.
    pub async fn set_enqueue_function_defaults(
        &self,
        defaults: EnqueueFunctionDefaults,
    ) -> Result<(), StoreError> {
        defaults::store_defaults(&self.shared, defaults).await
    }

    /// Returns the schema that holds this store's objects.
    pub fn schema(&self) -> &SchemaName {
        &self.shared.config.schema
    }

    /// Stores events in the caller's transaction, like the function [`enqueue_in`], in the schema of this store.
    pub async fn enqueue_in(
        &self,
        transaction: &tokio_postgres::Transaction<'_>,
        events: &[NewEvent],
    ) -> Result<Vec<Receipt>, CallerError> {
        enqueue::enqueue_with(&self.shared.sessions.statements, transaction, events).await
    }

    /// Returns a store whose schema must be up to date, and starts its background tasks on the current tokio runtime.
    /// Opens connections later, when they are needed.
    pub fn connect(config: PostgresConfig) -> Self {
        let (enqueue_queue, queued_requests) = EnqueueQueue::new();
        let shared = Arc::new(StoreState {
            sessions: SessionPools::new(&config),
            config,
            waker: Waker::default(),
            discovery: Mutex::default(),
            outstanding: OutstandingLeases::default(),
            blocked: BlockedDestinations::default(),
            destination_ids: DestinationIds::default(),
            enqueue_queue,
            committed_notices: CommittedNotices::default(),
            payload_reads: PayloadReads::default(),
            retention_cursors: Mutex::default(),
            ring_request: Arc::default(),
            sweep_request: Arc::default(),
            clock_repair: ClockRepair::default(),
            write_check: WriteCheck::default(),
            background: std::sync::Mutex::default(),
        });
        let weak = || Arc::downgrade(&shared);
        let background = [
            tokio::spawn(enqueue::run(weak(), queued_requests)).abort_handle(),
            tokio::spawn(listen::run(weak())).abort_handle(),
            tokio::spawn(wake::poll(weak())).abort_handle(),
            tokio::spawn(wake::ring(weak())).abort_handle(),
            tokio::spawn(sweep::run(weak())).abort_handle(),
            tokio::spawn(notices::run(weak())).abort_handle(),
            tokio::spawn(housekeeping::run(weak())).abort_handle(),
        ];
        shared.background.lock().expect("no holder of this lock panics").extend(background);
        Self { shared }
    }
}

impl Drop for StoreState {
    fn drop(&mut self) {
        for task in self.background.get_mut().expect("no holder of this lock panics") {
            task.abort();
        }
    }
}

/// Sleeps between rounds of background work. No guarantee of the store depends on it.
#[expect(clippy::disallowed_methods, reason = "paces reconnects and sweeps, which touch no event's timing")]
pub(crate) async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

#[async_trait]
impl Store for PostgresStore {
    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        self.shared.enqueue_queue.enqueue(request).await
    }

    fn wakeups(&self) -> Wakeups {
        self.shared.waker.subscribe()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        claim::claim(&self.shared, request).await
    }

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        payload::read_payload(&self.shared, lease).await
    }

    async fn renew(&self, held: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        lease::renew(&self.shared, held, lease).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        settle::settle(&self.shared, worker, batch).await
    }

    async fn release(&self, held: &[LeaseRef]) -> Result<(), StoreError> {
        lease::release(&self.shared, held).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        read::overview(&self.shared).await
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        list::dead_letters(&self.shared, query, page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        list::events(&self.shared, query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        read::event(&self.shared, event_id).await
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        operate::requeue(&self.shared, event_id, request).await
    }

    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        replay::replay(&self.shared, event_id, request).await
    }

    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError> {
        content::event_content(&self.shared, event_id, actor, payload_bytes_max).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        operate::cancel(&self.shared, event_id, request, reason).await
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        discard::discard(&self.shared, event_id, request, reason).await
    }

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        expire::expire(&self.shared, request).await
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        destination_view::list(&self.shared, state, page).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError> {
        destination_view::destination(&self.shared, id).await
    }

    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError> {
        destination::status(&self.shared, id).await
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        destination::pause(&self.shared, id, pause).await
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        destination::resume(&self.shared, id, actor).await
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        destination::probe(&self.shared, id, actor).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        destination::report_circuits(&self.shared, reports).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        notices::notices(&self.shared, after, limit).await
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        let health = read::health(&self.shared).await?;
        write_check::recently_writable(&self.shared).await?;
        Ok(health)
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        write_check::check_writes(&self.shared).await
    }

    async fn add_first_secret(&self, first: &Secret) -> Result<(), StoreError> {
        secrets::add_first_secret(&self.shared, first).await
    }

    async fn signing_secrets(&self) -> Result<Vec<StoredSecret>, StoreError> {
        secrets::signing_secrets(&self.shared).await
    }

    async fn rotate_secret(&self, request: RotateRequest<'_>) -> Result<Vec<StoredSecret>, StoreError> {
        secrets::rotate_secret(&self.shared, request).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        maintain::maintain(&self.shared, retention).await
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
