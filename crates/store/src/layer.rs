//! A store over another store that does one thing differently: counts, delays, checks, fails.

use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, WorkerId};

use crate::{
    CircuitReport, ClaimRequest, Claimed, DestinationState, EnqueueRequest, Enqueued, EventDetail,
    EventQuery, EventView, HeldLease, Maintained, NoticeCursor, NoticePage, Overview, Page, PageRequest,
    Retention, Settled, Settlement, Store, StoreError, Vitals, Wakeups,
};

/// A layer writes the methods that it changes; all others go straight through. [`Layered`] makes a store of it.
#[async_trait]
pub trait Layer: Send + Sync + 'static {
    fn inner(&self) -> &dyn Store;

    fn wakeups(&self) -> Wakeups {
        self.inner().wakeups()
    }

    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        self.inner().enqueue(batch).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.inner().claim(request).await
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        self.inner().renew(held, lease).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.inner().settle(worker, batch).await
    }

    async fn release(&self, held: &[HeldLease]) -> Result<(), StoreError> {
        self.inner().release(held).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.inner().overview().await
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.inner().dead_letters(page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.inner().events(query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.inner().event(event_id).await
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        self.inner().requeue(event_id, actor).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.inner().cancel(event_id, actor, reason).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError> {
        self.inner().destination(id).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        self.inner().report_circuits(reports).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.inner().notices(after, limit).await
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        self.inner().vitals().await
    }

    async fn signing_secrets(&self, first: &Secret) -> Result<Vec<Secret>, StoreError> {
        self.inner().signing_secrets(first).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        self.inner().maintain(retention).await
    }
}

/// The store that a layer makes of the one below it.
pub struct Layered<L>(pub L);

#[async_trait]
impl<L: Layer> Store for Layered<L> {
    fn wakeups(&self) -> Wakeups {
        self.0.wakeups()
    }

    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        self.0.enqueue(batch).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<Claimed, StoreError> {
        self.0.claim(request).await
    }

    async fn renew(&self, held: &[HeldLease], lease: Duration) -> Result<Vec<HeldLease>, StoreError> {
        self.0.renew(held, lease).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.0.settle(worker, batch).await
    }

    async fn release(&self, held: &[HeldLease]) -> Result<(), StoreError> {
        self.0.release(held).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.0.overview().await
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.0.dead_letters(page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.0.events(query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.0.event(event_id).await
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        self.0.requeue(event_id, actor).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.0.cancel(event_id, actor, reason).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError> {
        self.0.destination(id).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        self.0.report_circuits(reports).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.0.notices(after, limit).await
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        self.0.vitals().await
    }

    async fn signing_secrets(&self, first: &Secret) -> Result<Vec<Secret>, StoreError> {
        self.0.signing_secrets(first).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<Maintained, StoreError> {
        self.0.maintain(retention).await
    }
}
