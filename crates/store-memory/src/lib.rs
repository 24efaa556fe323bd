//! The in-memory store: the reference model of the [`Store`] trait, simple and not optimised.
//!
//! One lock protects plain maps. Every method holds it from start to end, so each method is a transaction. The files
//! mirror those of `posthaste-store`. Engine tests and the simulation run on this store, and tests compare the other
//! stores with it, operation by operation.
#![forbid(unsafe_code)]

mod activity;
mod bulk;
mod claim;
mod clock;
mod clock_repair;
mod destination;
mod enqueue;
mod expire;
mod maintain;
mod operate;
mod read;
mod registry;
mod replay;
mod search;
mod secrets;
mod settle;
mod state;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, EventKey, Lease, Timestamp, WorkerId};
use posthaste_store::{
    ActionRequest, Activity, Answers, Applications, AuditView, BulkOperations, CircuitReport, ClaimRequest,
    ClaimResponse, DeadLetterQuery, DestinationDetail, DestinationState, DestinationStatus, DestinationView,
    Endpoints, EnqueueLease, EnqueueRequest, EnqueueResponse, EventContent, EventDetail, EventQuery,
    EventTypes, EventView, ExpireRequest, ExpireResponse, LeaseRef, MaintenanceReport, Messages,
    NoticeCursor, NoticePage, Operations, Overview, Page, PageRequest, PauseRequest, ProbeResponse,
    Retention, RotateRequest, SettleResult, Settlement, Store, StoreClock, StoreError, StoreHealth,
    StoredSecret, Waker, Wakeups,
};

pub use activity::{ActivityTables, WorkerRow};
pub use bulk::{BulkRow, BulkTable};
pub use clock::ManualClock;
pub use registry::{AnswerRow, ApplicationRow, EndpointRow, Message, MessageKey, OperationRow, Registry};
pub use state::{Attempt, Destination, GrantedLease, ReportedCircuit, Row, State};

/// A store in memory. Clones are cheap and share one state.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn StoreClock>,
    waker: Waker,
}

impl MemoryStore {
    /// Creates an empty store. `seed` determines lease tokens and message ids: equal calls on equal seeds give equal
    /// ids.
    pub fn new(clock: Arc<dyn StoreClock>, seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(seed))), clock, waker: Waker::default() }
    }

    /// Runs a function on the state. Tests use it to inspect the state and to corrupt it on purpose.
    pub fn with_state<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        run(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Runs a function on the state and the current time, as one transaction.
    fn transact<T>(&self, run: impl FnOnce(&mut State, Timestamp) -> T) -> T {
        let now = self.clock.now();
        self.with_state(|state| run(state, now))
    }

    /// Claims exactly these events.
    ///
    /// A store chooses freely among the claimable events. With this method the model repeats the choice of the store
    /// that it is compared with. The caller must have checked that the choice is legal and that the claim id holds no
    /// lease yet.
    pub fn claim_exactly(&self, request: &ClaimRequest, keys: &[EventKey]) -> ClaimResponse {
        let now = self.clock.now();
        self.with_state(|state| claim::claim_exactly(state, now, request, keys))
    }

    /// Leases exactly these events, as an enqueue that has just stored them. A store may lease fewer of its new events than
    /// an enqueue asks for; with this method the model repeats its choice.
    pub fn lease_enqueued(&self, lease: &EnqueueLease, keys: &[EventKey]) -> Vec<Lease> {
        let now = self.clock.now();
        self.with_state(|state| claim::grant_enqueued(state, now, lease, keys))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let now = self.clock.now();
        let response = self.with_state(|state| enqueue::enqueue(state, now, &request))?;
        if response.leaves_events_to_claim() {
            self.waker.wake();
        }
        Ok(response)
    }

    fn wakeups(&self) -> Wakeups {
        self.waker.subscribe()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| claim::claim(state, now, request)))
    }

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        Ok(self.with_state(|state| claim::read_payload(state, lease)))
    }

    async fn renew(&self, leases: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| claim::renew(state, now, leases, lease)))
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| settle::settle(state, now, worker, batch)))
    }

    async fn release(&self, leases: &[LeaseRef]) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.with_state(|state| claim::release(state, now, leases));
        self.waker.wake();
        Ok(())
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| read::overview(state, now)))
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        Ok(self.with_state(|state| search::dead_letters(state, query, page)))
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        Ok(self.with_state(|state| search::events(state, query, page)))
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.with_state(|state| read::event(state, event_id))
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let now = self.clock.now();
        let requeued = self.with_state(|state| operate::requeue(state, now, event_id, request));
        self.waker.wake();
        requeued
    }

    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let replayed = self.transact(|state, now| replay::replay(state, now, event_id, request));
        self.waker.wake();
        replayed
    }

    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError> {
        self.transact(|state, now| replay::event_content(state, now, event_id, actor, payload_bytes_max))
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| operate::cancel(state, now, event_id, request, reason))
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| operate::discard(state, now, event_id, request, reason))
    }

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| expire::expire(state, now, request)))
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        let (now, filter) = (self.clock.now(), state);
        Ok(self.with_state(|state| destination::destinations(state, now, filter, page)))
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| destination::destination(state, now, id))
    }

    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| destination::destination_status(state, now, id))
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| destination::pause(state, now, id, pause))
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        let now = self.clock.now();
        let resumed = self.with_state(|state| destination::resume(state, now, id, actor));
        self.waker.wake();
        resumed
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        let probed = self.transact(|state, now| destination::probe(state, now, id, actor));
        self.waker.wake();
        probed
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.with_state(|state| destination::report_circuits(state, now, reports));
        Ok(())
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        Ok(self.with_state(|state| read::notices(state, after, limit)))
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        Ok(StoreHealth { now: self.clock.now(), schema: 0, schema_supported: 0 })
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        Ok(())
    }

    async fn add_first_secret(&self, first: &Secret) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.with_state(|state| secrets::add_first(state, now, first));
        Ok(())
    }

    async fn signing_secrets(&self) -> Result<Vec<StoredSecret>, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| secrets::valid(state, now)))
    }

    async fn rotate_secret(&self, request: RotateRequest<'_>) -> Result<Vec<StoredSecret>, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| secrets::rotate(state, now, request))
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| maintain::maintain(state, now, retention)))
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
