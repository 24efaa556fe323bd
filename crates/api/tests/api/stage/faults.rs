//! A store that fails in a chosen way, whatever it is asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use posthaste_domain::{DestinationId, EventId};
use posthaste_store::{
    DestinationState, EnqueueRequest, Enqueued, EventDetail, EventQuery, EventView, Layer, Layered,
    NoticeCursor, NoticePage, Overview, Page, PageRequest, Store, StoreError,
};

use super::{Setting, Stage, memory_at};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    Unavailable,
    Rejected,
    Panics,
    NeverAnswers,
}

/// Told to whoever runs the store, and to nobody else.
const SECRET: &str = "connection to db.internal.example as user posthaste refused";

pub(crate) struct Faulty {
    inner: Arc<dyn Store>,
    fault: Fault,
    pub(crate) overviews: Arc<AtomicUsize>,
}

impl Faulty {
    pub(crate) fn store(fault: Fault) -> (Arc<dyn Store>, Arc<AtomicUsize>) {
        let overviews = Arc::new(AtomicUsize::new(0));
        let inner = Arc::new(memory_at(1_700_000_000).0);
        (Arc::new(Layered(Self { inner, fault, overviews: Arc::clone(&overviews) })), overviews)
    }

    pub(crate) fn stage(fault: Fault) -> Stage {
        Stage::set(Self::store(fault).0, Arc::new(()), Setting::default())
    }

    async fn strike(&self) -> Result<(), StoreError> {
        match self.fault {
            Fault::None => Ok(()),
            Fault::Unavailable => Err(StoreError::Unavailable { reason: SECRET.to_owned() }),
            Fault::Rejected => Err(StoreError::Rejected { reason: SECRET.to_owned() }),
            Fault::Panics => panic!("{SECRET}"),
            Fault::NeverAnswers => std::future::pending().await,
        }
    }
}

#[async_trait]
impl Layer for Faulty {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    async fn enqueue(
        &self,
        batch: &[EnqueueRequest],
    ) -> Result<Vec<Result<Enqueued, StoreError>>, StoreError> {
        self.strike().await?;
        self.inner.enqueue(batch).await
    }

    async fn overview(&self) -> Result<Overview, StoreError> {
        self.overviews.fetch_add(1, Ordering::SeqCst);
        self.strike().await?;
        self.inner.overview().await
    }

    async fn dead_letters(&self, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.strike().await?;
        self.inner.dead_letters(page).await
    }

    async fn events(&self, query: &EventQuery, page: &PageRequest) -> Result<Page<EventView>, StoreError> {
        self.strike().await?;
        self.inner.events(query, page).await
    }

    async fn event(&self, event_id: &EventId) -> Result<EventDetail, StoreError> {
        self.strike().await?;
        self.inner.event(event_id).await
    }

    async fn requeue(&self, event_id: &EventId, actor: &str) -> Result<EventView, StoreError> {
        self.strike().await?;
        self.inner.requeue(event_id, actor).await
    }

    async fn cancel(
        &self,
        event_id: &EventId,
        actor: &str,
        reason: Option<&str>,
    ) -> Result<EventView, StoreError> {
        self.strike().await?;
        self.inner.cancel(event_id, actor, reason).await
    }

    async fn destination(&self, id: DestinationId) -> Result<DestinationState, StoreError> {
        self.strike().await?;
        self.inner.destination(id).await
    }

    async fn notices(&self, after: Option<NoticeCursor>, limit: usize) -> Result<NoticePage, StoreError> {
        self.strike().await?;
        self.inner.notices(after, limit).await
    }
}
