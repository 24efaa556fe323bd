//! A store whose every call fails in a chosen way.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use posthaste_domain::{BulkId, DestinationId, EventId, OperationId};
use posthaste_store::{
    ActionRequest, Activity, ActivityReport, Advance, AnswerSlot, AppScope, AuditView, BulkCount, BulkFilter,
    BulkOperation, BulkOperations, DeadLetterQuery, DestinationDetail, DestinationState, DestinationStatus,
    DestinationView, EnqueueRequest, EnqueueResponse, EventContent, EventDetail, EventQuery, EventView,
    History, HistoryRange, LayeredStore, List, ListRequest, NewBulkOperation, NewOperation, NoticeCursor,
    NoticePage, Operation, OperationState, Operations, Overview, Page, PageRequest, PauseRequest,
    ProbeResponse, ReceiverActivity, Store, StoreError, StoreLayer, WorkerStatus,
};

use super::{TestApi, TestOptions, memory_at};

/// How the store fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Unavailable,
    /// Only enqueueing fails.
    EnqueueUnavailable,
    Rejected,
    Panics,
    NeverReturns,
}

/// An internal error message, which clients must not see.
const SECRET: &str = "connection to db.internal.example as user posthaste expect_error";

/// A memory store with a fault. Counts calls of `overview`.
pub(crate) struct FaultyStore {
    inner: Arc<dyn Store>,
    fault: Fault,
    overview_calls: Arc<AtomicUsize>,
}

impl FaultyStore {
    /// Returns the store and its counter of `overview` calls.
    pub(crate) fn create(fault: Fault) -> (Arc<dyn Store>, Arc<AtomicUsize>) {
        let overview_calls = Arc::new(AtomicUsize::new(0));
        let inner = Arc::new(memory_at(1_700_000_000).0);
        (
            Arc::new(LayeredStore(Self { inner, fault, overview_calls: Arc::clone(&overview_calls) })),
            overview_calls,
        )
    }

    /// Returns an API on such a store.
    pub(crate) fn api(fault: Fault) -> TestApi {
        TestApi::new(Self::create(fault).0, Arc::new(()), TestOptions::default())
    }

    /// Fails, panics or hangs, depending on the fault.
    async fn fail(&self) -> Result<(), StoreError> {
        match self.fault {
            Fault::None | Fault::EnqueueUnavailable => Ok(()),
            Fault::Unavailable => Err(StoreError::Unavailable { reason: SECRET.to_owned() }),
            Fault::Rejected => Err(StoreError::Rejected { reason: SECRET.to_owned() }),
            Fault::Panics => panic!("{SECRET}"),
            Fault::NeverReturns => std::future::pending().await,
        }
    }
}

#[async_trait]
impl StoreLayer for FaultyStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        if self.fault == Fault::EnqueueUnavailable {
            return Err(StoreError::Unavailable { reason: SECRET.to_owned() });
        }
        self.fail().await?;
        self.inner.enqueue(request).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.overview_calls.fetch_add(1, Ordering::SeqCst);
        self.fail().await?;
        self.inner.overview().await
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        self.fail().await?;
        self.inner.dead_letters(query, page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.fail().await?;
        self.inner.events(query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.fail().await?;
        self.inner.event(event_id).await
    }

    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.fail().await?;
        self.inner.replay(event_id, request).await
    }

    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError> {
        self.fail().await?;
        self.inner.event_content(event_id, actor, payload_bytes_max).await
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        self.fail().await?;
        self.inner.requeue(event_id, request).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.fail().await?;
        self.inner.cancel(event_id, request, reason).await
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        self.fail().await?;
        self.inner.discard(event_id, request, reason).await
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        self.fail().await?;
        self.inner.destinations(state, page).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError> {
        self.fail().await?;
        self.inner.destination(id).await
    }

    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError> {
        self.fail().await?;
        self.inner.destination_status(id).await
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        self.fail().await?;
        self.inner.pause_destination(id, pause).await
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        self.fail().await?;
        self.inner.resume_destination(id, actor).await
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        self.fail().await?;
        self.inner.probe_destination(id, actor).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.fail().await?;
        self.inner.notices(after, limit).await
    }

    fn operations(&self) -> &dyn Operations {
        self
    }

    fn bulk(&self) -> &dyn BulkOperations {
        self
    }

    fn activity(&self) -> &dyn Activity {
        self
    }
}

#[async_trait]
impl BulkOperations for FaultyStore {
    async fn count(&self, filter: &BulkFilter) -> Result<BulkCount, StoreError> {
        self.fail().await?;
        self.inner.bulk().count(filter).await
    }

    async fn start(&self, new: &NewBulkOperation<'_>) -> Result<BulkOperation, StoreError> {
        self.fail().await?;
        self.inner.bulk().start(new).await
    }

    async fn get(&self, id: BulkId) -> Result<BulkOperation, StoreError> {
        self.fail().await?;
        self.inner.bulk().get(id).await
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<BulkId>,
    ) -> Result<List<BulkOperation>, StoreError> {
        self.fail().await?;
        self.inner.bulk().list(state, request).await
    }

    async fn stop(&self, id: BulkId, actor: &str) -> Result<BulkOperation, StoreError> {
        self.fail().await?;
        self.inner.bulk().stop(id, actor).await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        self.fail().await?;
        self.inner.bulk().advance(rows_max).await
    }
}

#[async_trait]
impl Activity for FaultyStore {
    async fn report(&self, report: &ActivityReport) -> Result<(), StoreError> {
        self.fail().await?;
        self.inner.activity().report(report).await
    }

    async fn history(&self, range: HistoryRange) -> Result<History, StoreError> {
        self.fail().await?;
        self.inner.activity().history(range).await
    }

    async fn workers(&self) -> Result<Vec<WorkerStatus>, StoreError> {
        self.fail().await?;
        self.inner.activity().workers().await
    }

    async fn receivers(&self, destinations: &[DestinationId]) -> Result<Vec<ReceiverActivity>, StoreError> {
        self.fail().await?;
        self.inner.activity().receivers(destinations).await
    }
}

#[async_trait]
impl Operations for FaultyStore {
    async fn start(
        &self,
        scope: AppScope<'_>,
        new: &NewOperation<'_>,
        answer: Option<&AnswerSlot<Operation>>,
    ) -> Result<Operation, StoreError> {
        self.fail().await?;
        self.inner.operations().start(scope, new, answer).await
    }

    async fn get(&self, scope: AppScope<'_>, id: OperationId) -> Result<Operation, StoreError> {
        self.fail().await?;
        self.inner.operations().get(scope, id).await
    }

    async fn list(
        &self,
        state: Option<OperationState>,
        request: &ListRequest<OperationId>,
    ) -> Result<List<Operation>, StoreError> {
        self.fail().await?;
        self.inner.operations().list(state, request).await
    }

    async fn stop(&self, id: OperationId) -> Result<Operation, StoreError> {
        self.fail().await?;
        self.inner.operations().stop(id).await
    }

    async fn advance(&self, rows_max: usize) -> Result<Advance, StoreError> {
        self.fail().await?;
        self.inner.operations().advance(rows_max).await
    }
}
