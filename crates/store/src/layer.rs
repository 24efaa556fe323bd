//! Store decorators: a layer wraps a store and overrides some of its methods, for example to count, delay or fail
//! calls.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::signature::Secret;
use posthaste_domain::{DestinationId, EventId, WorkerId};

use crate::{
    ActionRequest, Activity, Answers, Applications, AuditView, BulkOperations, CircuitReport, ClaimRequest,
    ClaimResponse, DeadLetterQuery, DestinationDetail, DestinationState, DestinationStatus, DestinationView,
    Endpoints, EnqueueRequest, EnqueueResponse, EventContent, EventDetail, EventQuery, EventTypes, EventView,
    ExpireRequest, ExpireResponse, LeaseRef, MaintenanceReport, Messages, NoticeCursor, NoticePage,
    Operations, Overview, Page, PageRequest, PauseRequest, ProbeResponse, Retention, RotateRequest,
    SettleResult, Settlement, Store, StoreError, StoreHealth, StoredSecret, Wakeups,
};

/// A decorator of a store. Every method calls the inner store unless the layer overrides it.
///
/// [`LayeredStore`] turns a layer into a [`Store`].
#[async_trait]
pub trait StoreLayer: Send + Sync + 'static {
    /// The wrapped store.
    fn inner(&self) -> &dyn Store;

    fn wakeups(&self) -> Wakeups {
        self.inner().wakeups()
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        self.inner().enqueue(request).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.inner().claim(request).await
    }

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        self.inner().read_payload(lease).await
    }

    async fn renew(&self, leases: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        self.inner().renew(leases, lease).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        self.inner().settle(worker, batch).await
    }

    async fn release(&self, leases: &[LeaseRef]) -> Result<(), StoreError> {
        self.inner().release(leases).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.inner().overview().await
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        self.inner().dead_letters(query, page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.inner().events(query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.inner().event(event_id).await
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.inner().requeue(event_id, request).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.inner().cancel(event_id, request, reason).await
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        self.inner().discard(event_id, request, reason).await
    }

    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.inner().replay(event_id, request).await
    }

    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError> {
        self.inner().event_content(event_id, actor, payload_bytes_max).await
    }

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        self.inner().expire(request).await
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        self.inner().destinations(state, page).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError> {
        self.inner().destination(id).await
    }

    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError> {
        self.inner().destination_status(id).await
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        self.inner().pause_destination(id, pause).await
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        self.inner().resume_destination(id, actor).await
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        self.inner().probe_destination(id, actor).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        self.inner().report_circuits(reports).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.inner().notices(after, limit).await
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        self.inner().health().await
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        self.inner().check_writes().await
    }

    fn wal_bytes(&self) -> Option<u64> {
        self.inner().wal_bytes()
    }

    async fn add_first_secret(&self, first: &Secret) -> Result<(), StoreError> {
        self.inner().add_first_secret(first).await
    }

    async fn signing_secrets(&self) -> Result<Vec<StoredSecret>, StoreError> {
        self.inner().signing_secrets().await
    }

    async fn rotate_secret(&self, request: RotateRequest<'_>) -> Result<Vec<StoredSecret>, StoreError> {
        self.inner().rotate_secret(request).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        self.inner().maintain(retention).await
    }

    fn applications(&self) -> &dyn Applications {
        self.inner().applications()
    }

    fn endpoints(&self) -> &dyn Endpoints {
        self.inner().endpoints()
    }

    fn event_types(&self) -> &dyn EventTypes {
        self.inner().event_types()
    }

    fn messages(&self) -> &dyn Messages {
        self.inner().messages()
    }

    fn operations(&self) -> &dyn Operations {
        self.inner().operations()
    }

    fn bulk(&self) -> &dyn BulkOperations {
        self.inner().bulk()
    }

    fn answers(&self) -> &dyn Answers {
        self.inner().answers()
    }

    fn activity(&self) -> &dyn Activity {
        self.inner().activity()
    }
}

/// The [`Store`] that a layer and its inner store form.
pub struct LayeredStore<L>(pub L);

#[async_trait]
impl<L: StoreLayer> Store for LayeredStore<L> {
    fn wakeups(&self) -> Wakeups {
        self.0.wakeups()
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        self.0.enqueue(request).await
    }

    async fn claim(&self, request: &ClaimRequest) -> Result<ClaimResponse, StoreError> {
        self.0.claim(request).await
    }

    async fn read_payload(&self, lease: LeaseRef) -> Result<Option<Bytes>, StoreError> {
        self.0.read_payload(lease).await
    }

    async fn renew(&self, leases: &[LeaseRef], lease: Duration) -> Result<Vec<LeaseRef>, StoreError> {
        self.0.renew(leases, lease).await
    }

    async fn settle(&self, worker: &WorkerId, batch: &[Settlement]) -> Result<Vec<SettleResult>, StoreError> {
        self.0.settle(worker, batch).await
    }

    async fn release(&self, leases: &[LeaseRef]) -> Result<(), StoreError> {
        self.0.release(leases).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.0.overview().await
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        self.0.dead_letters(query, page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.0.events(query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.0.event(event_id).await
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.0.requeue(event_id, request).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.0.cancel(event_id, request, reason).await
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        self.0.discard(event_id, request, reason).await
    }

    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.0.replay(event_id, request).await
    }

    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError> {
        self.0.event_content(event_id, actor, payload_bytes_max).await
    }

    async fn expire(&self, request: &ExpireRequest) -> Result<ExpireResponse, StoreError> {
        self.0.expire(request).await
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        self.0.destinations(state, page).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError> {
        self.0.destination(id).await
    }

    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError> {
        self.0.destination_status(id).await
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        self.0.pause_destination(id, pause).await
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        self.0.resume_destination(id, actor).await
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        self.0.probe_destination(id, actor).await
    }

    async fn report_circuits(&self, reports: &[CircuitReport]) -> Result<(), StoreError> {
        self.0.report_circuits(reports).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.0.notices(after, limit).await
    }

    async fn health(&self) -> Result<StoreHealth, StoreError> {
        self.0.health().await
    }

    async fn check_writes(&self) -> Result<(), StoreError> {
        self.0.check_writes().await
    }

    fn wal_bytes(&self) -> Option<u64> {
        self.0.wal_bytes()
    }

    async fn add_first_secret(&self, first: &Secret) -> Result<(), StoreError> {
        self.0.add_first_secret(first).await
    }

    async fn signing_secrets(&self) -> Result<Vec<StoredSecret>, StoreError> {
        self.0.signing_secrets().await
    }

    async fn rotate_secret(&self, request: RotateRequest<'_>) -> Result<Vec<StoredSecret>, StoreError> {
        self.0.rotate_secret(request).await
    }

    async fn maintain(&self, retention: &Retention) -> Result<MaintenanceReport, StoreError> {
        self.0.maintain(retention).await
    }

    fn applications(&self) -> &dyn Applications {
        self.0.applications()
    }

    fn endpoints(&self) -> &dyn Endpoints {
        self.0.endpoints()
    }

    fn event_types(&self) -> &dyn EventTypes {
        self.0.event_types()
    }

    fn messages(&self) -> &dyn Messages {
        self.0.messages()
    }

    fn operations(&self) -> &dyn Operations {
        self.0.operations()
    }

    fn bulk(&self) -> &dyn BulkOperations {
        self.0.bulk()
    }

    fn answers(&self) -> &dyn Answers {
        self.0.answers()
    }

    fn activity(&self) -> &dyn Activity {
        self.0.activity()
    }
}
