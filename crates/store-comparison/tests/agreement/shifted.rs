//! A store whose clock cannot be moved: to advance is to move every stored moment back. Here they are moved back
//! whenever they are shown, which looks the same from outside.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::{DestinationId, EventId, Timestamp};
use posthaste_store::{
    Cursor, DestinationState, EnqueueRequest, Enqueued, EventDetail, EventQuery, EventView, Layer, Layered,
    NoticeCursor, NoticePage, Page, PageRequest, Store, StoreClock as _, StoreError,
};
use posthaste_store_conformance::Harness;
use posthaste_store_memory::{ManualClock, MemoryStore};

const START: Timestamp = Timestamp::from_secs(1_750_000_000);

pub(crate) struct ShiftedHarness {
    memory: MemoryStore,
    clock: Arc<ManualClock>,
}

impl ShiftedHarness {
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        Self { memory: MemoryStore::new(clock.clone(), 5), clock }
    }
}

#[async_trait]
impl Harness for ShiftedHarness {
    fn store(&self) -> Arc<dyn Store> {
        Arc::new(Layered(Shifted { memory: self.memory.clone(), clock: self.clock.clone() }))
    }

    fn second_handle(&self) -> Arc<dyn Store> {
        self.store()
    }

    async fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }
}

struct Shifted {
    memory: MemoryStore,
    clock: Arc<ManualClock>,
}

impl Shifted {
    /// How far time was moved so far.
    fn moved(&self) -> Duration {
        self.clock.now().since(START)
    }

    fn back(&self, moments: &mut [&mut Timestamp]) {
        for moment in moments {
            **moment = moment.before(self.moved());
        }
    }

    fn back_if_any(&self, moments: &mut [&mut Option<Timestamp>]) {
        for moment in moments.iter_mut().filter_map(|moment| moment.as_mut()) {
            *moment = moment.before(self.moved());
        }
    }

    fn view(&self, mut view: EventView) -> EventView {
        self.back(&mut [&mut view.created_at, &mut view.updated_at]);
        self.back_if_any(&mut [
            &mut view.next_attempt_at,
            &mut view.lease_until,
            &mut view.last_attempted_at,
            &mut view.delivered_at,
        ]);
        if let Some(audit) = &mut view.manual_last {
            self.back(&mut [&mut audit.at]);
        }
        view
    }

    fn page(&self, page: Page<EventView>) -> Page<EventView> {
        let next = page.next.map(|next| Cursor { at: next.at.before(self.moved()), ..next });
        Page { items: page.items.into_iter().map(|view| self.view(view)).collect(), next }
    }

    fn request(&self, request: &PageRequest) -> PageRequest {
        let after = request.after.map(|after| Cursor { at: after.at.after(self.moved()), ..after });
        PageRequest { after, ..*request }
    }
}

#[async_trait]
impl Layer for Shifted {
    fn inner(&self) -> &dyn Store {
        &self.memory
    }

    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        let mut answers = self.memory.enqueue(batch).await?;
        for receipt in answers.iter_mut().flatten().flat_map(|enqueued| &mut enqueued.receipts) {
            self.back(&mut [&mut receipt.created_at]);
        }
        Ok(answers)
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        Ok(self.page(self.memory.dead_letters(&self.request(page)).await?))
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        Ok(self.page(self.memory.events(query, &self.request(page)).await?))
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        let mut detail = self.memory.event(event_id).await?;
        for attempt in &mut detail.history {
            self.back(&mut [&mut attempt.started_at]);
        }
        for audit in &mut detail.audit {
            self.back(&mut [&mut audit.at]);
        }
        Ok(EventDetail { event: self.view(detail.event), ..detail })
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        Ok(self.view(self.memory.requeue(event_id, actor).await?))
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        Ok(self.view(self.memory.cancel(event_id, actor, reason).await?))
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError> {
        let mut state = self.memory.destination(id).await?;
        self.back_if_any(&mut [&mut state.paused_until, &mut state.failing_since]);
        Ok(state)
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        let mut page = self.memory.notices(after, limit).await?;
        for published in &mut page.notices {
            self.back(&mut [&mut published.notice.at]);
        }
        Ok(page)
    }
}
