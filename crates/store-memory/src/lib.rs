//! The reference model: what a store must do, with nothing that makes it fast.
//!
//! One lock over plain maps; every method of the port runs under it from start to end, so each is a transaction.
//! The files mirror the port's. Engine tests and the simulation run on this store, and the real stores are compared
//! with it operation by operation.
#![forbid(unsafe_code)]

mod claim;
mod clock;
mod enqueue;
mod maintain;
mod operate;
mod read;
mod settle;
mod state;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, EventKey, WorkerId};
use posthaste_store::{
    CircuitReport, ClaimRequest, Claimed, DestinationState, EnqueueRequest, Enqueued, EventDetail,
    EventQuery, EventView, HeldLease, Maintained, NoticeCursor, NoticePage, Overview, Page, PageRequest,
    Retention, Settled, Settlement, Store, StoreClock, StoreError, Vitals, Waker, Wakeups,
};

pub use clock::ManualClock;
pub use state::{Attempt, Destination, GrantedLease, Row, State};

/// Handles are cheap to clone and share one state.
#[derive(Clone)]
pub struct MemoryStore {
    state: Arc<Mutex<State>>,
    clock: Arc<dyn StoreClock>,
    waker: Waker,
}

impl MemoryStore {
    /// `seed` feeds lease tokens and message ids: the same calls on the same seed give the same ids.
    pub fn new(clock: Arc<dyn StoreClock>, seed: u64) -> Self {
        Self { state: Arc::new(Mutex::new(State::new(seed))), clock, waker: Waker::default() }
    }

    /// The state as it stands, for checks and for planting what a check must find.
    pub fn with_state<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        look(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// A claim that grants exactly these events. Which of the claimable events a claim takes is a store's own choice;
    /// this makes the model follow the choice of the store that it is compared with. Nothing is checked: the caller
    /// has seen that the choice was legal, and that the claim's id holds no lease yet.
    pub fn claim_exactly(&self, request: &ClaimRequest, keys: &[EventKey]) -> Claimed {
        let now = self.clock.now();
        self.with_state(|state| claim::claim_exactly(state, now, request, keys))
    }
}

#[async_trait]
impl Store for MemoryStore {
    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        let now = self.clock.now();
        let answers = self
            .with_state(|state| batch.iter().map(|request| enqueue::enqueue(state, now, request)).collect());
        self.waker.wake();
        Ok(answers)
    }

    fn wakeups(&self) -> Wakeups {
        self.waker.subscribe()
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| claim::claim(state, now, request)))
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| claim::renew(state, now, held, lease)))
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| {
            batch.iter().map(|settlement| settle::settle(state, now, worker, settlement)).collect()
        }))
    }

    async fn release(&self, held: &[HeldLease]) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.with_state(|state| claim::release(state, now, held));
        self.waker.wake();
        Ok(())
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| read::overview(state, now)))
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        Ok(self.with_state(|state| read::dead_letters(state, page)))
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        Ok(self.with_state(|state| read::events(state, query, page)))
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.with_state(|state| read::event(state, event_id))
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        let now = self.clock.now();
        let requeued = self.with_state(|state| operate::requeue(state, now, event_id, actor));
        self.waker.wake();
        requeued
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| operate::cancel(state, now, event_id, actor, reason))
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError> {
        let now = self.clock.now();
        self.with_state(|state| read::destination(state, now, id))
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        let now = self.clock.now();
        self.with_state(|state| operate::report_circuits(state, now, reports));
        Ok(())
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        Ok(self.with_state(|state| read::notices(state, after, limit)))
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        Ok(Vitals { now: self.clock.now(), schema: 0, schema_known: 0 })
    }

    async fn signing_secrets(&self, first: &Secret) -> Result<Vec<Secret>, StoreError> {
        Ok(vec![self.with_state(|state| state.secret.get_or_insert_with(|| first.clone()).clone())])
    }

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        let now = self.clock.now();
        Ok(self.with_state(|state| maintain::maintain(state, now, retention)))
    }
}
