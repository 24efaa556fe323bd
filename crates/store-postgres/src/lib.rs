//! The store for many workers: PostgreSQL, 13 and newer.
//!
//! The files mirror the port's. A statement lives where it is used, with the index that serves it named beside it.
//!
//! - What is claimable is *discovered* and remembered per process (`frontier`), so that a claim asks only for what can
//!   be sent and no backlog, however large, is walked.
//! - Every call is one transaction in one round trip; leases, delays and dates are counted by the server's clock.
//! - Connections come and go: each call takes one from the pool of its purpose, and an error means that the next call
//!   looks for a server again. The callers retry, for ever.
#![forbid(unsafe_code)]

mod claim;
mod config;
mod counts;
mod defaults;
mod discover;
mod enqueue;
mod error;
mod event;
mod frontier;
mod granted;
mod lease;
mod listen;
mod maintain;
mod migrate;
mod moment;
mod notices;
mod number;
mod oldest;
mod operate;
mod read;
mod secrets;
mod session;
mod settle;
mod sweep;
mod tidy;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, WorkerId};
use posthaste_store::{
    CircuitReport, ClaimRequest, Claimed, DestinationState, EnqueueRequest, Enqueued, EventDetail,
    EventQuery, EventView, HeldLease, Maintained, NoticeCursor, NoticePage, Overview, Page, PageRequest,
    Retention, Settled, Settlement, Store, StoreError, Vitals, Waker, Wakeups,
};
use tokio::sync::{Mutex, Notify};
use tokio::task::AbortHandle;

pub use config::{InvalidUrl, PostgresConfig};
pub use defaults::CallerDefaults;
pub use enqueue::{CallerError, enqueue_in};
pub use migrate::{MigrateError, Migrated, examine, known_version, migrate};
/// The version of the driver whose transactions [`enqueue_in`] takes.
pub use tokio_postgres;

use claim::Known;
use enqueue::Places;
use granted::Granted;
use notices::Unplaced;
use session::Sessions;

/// Cheap to clone; clones share connections and knowledge.
#[derive(Clone)]
pub struct PostgresStore {
    shared: Arc<Shared>,
}

pub(crate) struct Shared {
    config: PostgresConfig,
    sessions: Sessions,
    waker: Waker,
    known: Mutex<Known>,
    granted: Granted,
    places: Places,
    notices: Unplaced,
    /// How far the walk of retention has come.
    walked_to: Mutex<i64>,
    sweep_soon: Arc<Notify>,
    background: std::sync::Mutex<Vec<AbortHandle>>,
}

impl PostgresStore {
    /// Migrates the schema and starts what goes on beside the calls, on the current tokio runtime.
    pub async fn open(config: PostgresConfig) -> Result<Self, MigrateError> {
        migrate(&config).await?;
        let store = Self::connect(config);
        // A day without a partition is no failure; the next round of maintenance tries again.
        if let Err(error) = store.shared.sessions.dispatch.with(maintain::ahead).await {
            tracing::debug!(code = error.code(), %error, "partitions are made later");
        }
        Ok(store)
    }

    /// What `app.enqueue_webhook` gives to events that ask for nothing, and how large a payload it takes.
    pub async fn set_caller_defaults(&self, defaults: CallerDefaults) -> Result<(), StoreError> {
        defaults::set(&self.shared, defaults).await
    }

    /// For a schema that is known to be up to date. Does not wait for the server.
    pub fn connect(config: PostgresConfig) -> Self {
        let shared = Arc::new(Shared {
            sessions: Sessions::new(&config),
            config,
            waker: Waker::default(),
            known: Mutex::default(),
            granted: Granted::default(),
            places: Places::default(),
            notices: Unplaced::default(),
            walked_to: Mutex::default(),
            sweep_soon: Arc::default(),
            background: std::sync::Mutex::default(),
        });
        let weak = || Arc::downgrade(&shared);
        let background = [
            tokio::spawn(listen::run(weak())).abort_handle(),
            tokio::spawn(sweep::run(weak())).abort_handle(),
            tokio::spawn(notices::run(weak())).abort_handle(),
            tokio::spawn(tidy::run(weak())).abort_handle(),
        ];
        shared.background.lock().expect("nobody has panicked with it").extend(background);
        Self { shared }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        for task in self.background.get_mut().expect("nobody has panicked with it") {
            task.abort();
        }
    }
}

/// The background's own pace. Nothing that a store promises depends on it.
#[expect(clippy::disallowed_methods, reason = "paces reconnects and sweeps, which touch no event's timing")]
pub(crate) async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

#[async_trait]
impl Store for PostgresStore {
    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        enqueue::enqueue(&self.shared, batch).await
    }

    fn wakeups(&self) -> Wakeups {
        self.shared.waker.subscribe()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        claim::claim(&self.shared, request).await
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        lease::renew(&self.shared, held, lease).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        settle::settle(&self.shared, worker, batch).await
    }

    async fn release(&self, held: &[HeldLease]) -> Result<(), StoreError> {
        lease::release(&self.shared, held).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        read::overview(&self.shared).await
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        read::dead_letters(&self.shared, page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        read::events(&self.shared, query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        read::event(&self.shared, event_id).await
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        operate::requeue(&self.shared, event_id, actor).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        operate::cancel(&self.shared, event_id, actor, reason).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError> {
        read::destination(&self.shared, id).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        operate::report_circuits(&self.shared, reports).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        notices::notices(&self.shared, after, limit).await
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        read::vitals(&self.shared).await
    }

    async fn signing_secrets(&self, first: &Secret) -> Result<Vec<Secret>, StoreError> {
        secrets::valid(&self.shared, first).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        maintain::maintain(&self.shared, retention).await
    }
}
