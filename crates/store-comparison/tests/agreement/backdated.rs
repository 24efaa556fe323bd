//! A store whose clock cannot be advanced. Its harness would move all stored timestamps back instead; this store moves
//! them back whenever it returns them, which has the same effect for callers.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DestinationId, EventId, Timestamp};
use posthaste_store::{
    ActionRequest, AuditView, DeadLetterQuery, DestinationDetail, DestinationState, DestinationStatus,
    DestinationView, EnqueueRequest, EnqueueResponse, EventContent, EventDetail, EventQuery, EventView,
    LayeredStore, NoticeCursor, NoticePage, Page, PageCursor, PageRequest, PauseRequest, ProbeResponse,
    Store, StoreClock as _, StoreError, StoreLayer,
};
use posthaste_store_conformance::Harness;
use posthaste_store_memory::{ManualClock, MemoryStore};

const START: Timestamp = Timestamp::from_secs(1_750_000_000);

pub(crate) struct BackdatedHarness {
    memory: MemoryStore,
    clock: Arc<ManualClock>,
}

impl BackdatedHarness {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        Self { memory: MemoryStore::new(clock.clone(), 5), clock }
    }
}

#[async_trait]
impl Harness for BackdatedHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(LayeredStore(BackdatedStore { memory: self.memory.clone(), clock: self.clock.clone() }))
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

struct BackdatedStore {
    memory: MemoryStore,
    clock: Arc<ManualClock>,
}

impl BackdatedStore {
    /// Returns by how much time was advanced so far.
    fn advanced(&self) -> Duration {
        self.clock.now().since(START)
    }

    fn error(&self, mut error: StoreError) -> StoreError {
        if let StoreError::EventDiscarded { discard, .. } = &mut error {
            self.backdate(&mut [&mut discard.at]);
        }
        error
    }

    fn backdate(&self, timestamps: &mut [&mut Timestamp]) {
        for timestamp in timestamps {
            **timestamp = timestamp.before(self.advanced());
        }
    }

    fn backdate_optional(&self, timestamps: &mut [&mut Option<Timestamp>]) {
        for timestamp in timestamps.iter_mut().filter_map(|timestamp| timestamp.as_mut()) {
            *timestamp = timestamp.before(self.advanced());
        }
    }

    fn view(&self, mut view: EventView) -> EventView {
        self.backdate(&mut [&mut view.created_at, &mut view.updated_at]);
        self.backdate_optional(&mut [
            &mut view.next_attempt_at,
            &mut view.lease_until,
            &mut view.last_attempted_at,
            &mut view.delivered_at,
        ]);
        if let Some(audit) = &mut view.manual_last {
            self.backdate(&mut [&mut audit.at]);
        }
        view
    }

    fn status(&self, status: Result<DestinationStatus, StoreError>) -> Result<DestinationStatus, StoreError> {
        let mut status = status?;
        self.backdate_status(&mut status);
        Ok(status)
    }

    fn backdate_status(&self, status: &mut DestinationStatus) {
        self.backdate_optional(&mut [&mut status.failing_since]);
        if let Some(pause) = &mut status.operator_pause {
            self.backdate(&mut [&mut pause.at]);
            self.backdate_optional(&mut [&mut pause.until]);
        }
        if let Some(pause) = &mut status.receiver_pause {
            self.backdate(&mut [&mut pause.at, &mut pause.until]);
        }
        if let Some(circuit) = &mut status.circuit {
            self.backdate(&mut [&mut circuit.since, &mut circuit.next_probe_at]);
        }
    }

    fn page(&self, page: Page<EventView>) -> Page<EventView> {
        let next = page.next.map(|next| PageCursor { at: next.at.before(self.advanced()), ..next });
        Page { items: page.items.into_iter().map(|view| self.view(view)).collect(), next }
    }

    fn request(&self, request: &PageRequest) -> PageRequest {
        let after = request.after.map(|after| PageCursor { at: after.at.after(self.advanced()), ..after });
        PageRequest { after, ..*request }
    }
}

#[async_trait]
impl StoreLayer for BackdatedStore {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn enqueue(&self, request: EnqueueRequest) -> Result<EnqueueResponse, StoreError> {
        let mut response = self.memory.enqueue(request).await?;
        for receipt in &mut response.receipts {
            self.backdate(&mut [&mut receipt.created_at]);
        }
        Ok(response)
    }

    async fn dead_letters(
        &self,
        query: &DeadLetterQuery,
        page: &PageRequest,
    ) -> Result<Page<EventView>, StoreError> {
        let mut query = query.clone();
        for time in [&mut query.filter.since, &mut query.filter.until].into_iter().flatten() {
            *time = time.after(self.advanced());
        }
        Ok(self.page(self.memory.dead_letters(&query, &self.request(page)).await?))
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        Ok(self.page(self.memory.events(query, &self.request(page)).await?))
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        let mut detail = self.memory.event(event_id).await.map_err(|error| self.error(error))?;
        for attempt in &mut detail.history {
            self.backdate(&mut [&mut attempt.started_at]);
        }
        for audit in &mut detail.audit {
            self.backdate(&mut [&mut audit.at]);
        }
        Ok(EventDetail { event: self.view(detail.event), ..detail })
    }

    async fn requeue(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let requeued = self.memory.requeue(event_id, request).await;
        requeued.map(|view| self.view(view)).map_err(|error| self.error(error))
    }

    async fn replay(&self, event_id: &EventId, request: ActionRequest<'_>) -> Result<EventView, StoreError> {
        let added = self.memory.replay(event_id, request).await;
        added.map(|view| self.view(view)).map_err(|error| self.error(error))
    }

    async fn event_content(
        &self,
        event_id: &EventId,
        actor: &str,
        payload_bytes_max: usize,
    ) -> Result<EventContent, StoreError> {
        let content = self.memory.event_content(event_id, actor, payload_bytes_max).await;
        let content = content.map_err(|error| self.error(error))?;
        Ok(EventContent { event: self.view(content.event), ..content })
    }

    async fn probe_destination(&self, id: DestinationId, actor: &str) -> Result<ProbeResponse, StoreError> {
        let mut response = self.memory.probe_destination(id, actor).await?;
        self.backdate_status(&mut response.status);
        Ok(response)
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        let cancelled = self.memory.cancel(event_id, request, reason).await;
        cancelled.map(|view| self.view(view)).map_err(|error| self.error(error))
    }

    async fn discard(
        &self,
        event_id: &EventId,
        request: ActionRequest<'_>,
        reason: Option<&str>,
    ) -> Result<AuditView, StoreError> {
        let discarded = self.memory.discard(event_id, request, reason).await;
        let mut discard = discarded.map_err(|error| self.error(error))?;
        self.backdate(&mut [&mut discard.at]);
        Ok(discard)
    }

    async fn destinations(
        &self,
        state: Option<DestinationState>,
        page: &PageRequest<DestinationId>,
    ) -> Result<Page<DestinationView, DestinationId>, StoreError> {
        let mut page = self.memory.destinations(state, page).await?;
        for view in &mut page.items {
            self.backdate_status(&mut view.status);
        }
        Ok(page)
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationDetail, StoreError> {
        let mut detail = self.memory.destination(id).await?;
        self.backdate_status(&mut detail.destination.status);
        for entry in &mut detail.audit {
            self.backdate(&mut [&mut entry.at]);
            self.backdate_optional(&mut [&mut entry.until]);
        }
        Ok(detail)
    }

    async fn destination_status(&self, id: DestinationId) -> Result<DestinationStatus, StoreError> {
        self.status(self.memory.destination_status(id).await)
    }

    async fn pause_destination(
        &self,
        id: DestinationId,
        pause: &PauseRequest,
    ) -> Result<DestinationStatus, StoreError> {
        self.status(self.memory.pause_destination(id, pause).await)
    }

    async fn resume_destination(
        &self,
        id: DestinationId,
        actor: &str,
    ) -> Result<DestinationStatus, StoreError> {
        self.status(self.memory.resume_destination(id, actor).await)
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.memory.notices(after, limit).await?;
        for published in &mut page.notices {
            self.backdate(&mut [&mut published.notice.at]);
        }
        Ok(page)
    }
}
