//! Registries with one fault each. Every call goes to the memory store, and some change its state around the call.

use async_trait::async_trait;
use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::{
    AttemptId, DeliveryStatus, DestinationId, DestinationUrl, EndpointChange, EndpointId, EndpointRef,
    EventId, EventKey, MessageId, MessageRef, NewEndpoint, Timestamp,
};
use posthaste_store::{
    AnswerSlot, AppScope, AttemptFilter, AttemptRecord, Created, DestinationKey, DestinationProfile,
    DisabledEndpoint, Endpoint, EndpointMessage, EndpointStats, Endpoints, List, ListFrom, ListRequest,
    MessageDestination, MessageFilter, MessageView, Messages, NewSecrets, Publication, PublishRequest,
    Reseal, RotateKey, Store as _, StoreError,
};
use posthaste_store_memory::{MemoryStore, Row, State};

/// Endpoints with a fault.
pub(super) struct FaultyEndpoints {
    pub(super) memory: MemoryStore,
    pub(super) fault: EndpointFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointFault {
    /// Only the new key is valid after a rotation.
    RotationDropsTheOldKey,
    /// A deleted endpoint keeps its pending events.
    DeleteKeepsEvents,
}

/// The pending events before a call, and the lengths of the logs.
struct Pending {
    rows: Vec<(EventKey, Row)>,
    notices: usize,
    audit: usize,
}

impl Pending {
    fn of(state: &State) -> Self {
        let pending = state.rows.iter().filter(|(_, row)| row.status == DeliveryStatus::Pending);
        let rows = pending.map(|(key, row)| (*key, row.clone())).collect();
        Self { rows, notices: state.notices.len(), audit: state.audit.len() }
    }

    fn restore(self, state: &mut State) {
        state.rows.extend(self.rows);
        state.notices.truncate(self.notices);
        state.audit.truncate(self.audit);
    }
}

/// Messages with a fault.
pub(super) struct FaultyMessages {
    pub(super) memory: MemoryStore,
    pub(super) fault: MessageFault,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageFault {
    /// A message to several endpoints misses the last one.
    FanOutSkipsOne,
    /// A message reaches disabled endpoints too.
    FanOutReachesDisabled,
    /// A page that continues after a message skips the next one.
    PagesSkipOne,
}

type Disabled = Vec<(DestinationId, DisabledEndpoint)>;

impl MessageFault {
    /// Enables all endpoints before a publication, if it is to reach the disabled ones. Returns those that were disabled.
    fn prepare(self, state: &mut State) -> Disabled {
        let endpoints =
            state.destinations.iter_mut().filter_map(|(id, it)| Some((*id, it.endpoint.as_mut()?)));
        let live = endpoints.filter(|(_, endpoint)| endpoint.deleted_at.is_none());
        let faulty = live.filter(|_| self == Self::FanOutReachesDisabled);
        faulty.filter_map(|(id, endpoint)| Some((id, endpoint.disabled.take()?))).collect()
    }

    fn finish(self, state: &mut State, disabled: Disabled, published: &Result<Publication, StoreError>) {
        for (id, disabled) in disabled {
            let endpoint = state.destinations.get_mut(&id).and_then(|it| it.endpoint.as_mut());
            endpoint.expect("the endpoint was just disabled").disabled = Some(disabled);
        }
        if let Some(published) = published.as_ref().ok().filter(|it| it.event_count > 1)
            && self == Self::FanOutSkipsOne
        {
            let mut of_message =
                state.rows.iter().rev().filter(|(_, row)| row.message_id == published.message.id);
            let last = of_message.next().map(|(key, row)| (*key, row.event_id.clone()));
            let (key, event_id) = last.expect("the message has events");
            state.rows.remove(&key);
            state.keys.remove(&event_id);
        }
    }
}

#[async_trait]
impl Endpoints for FaultyEndpoints {
    async fn create(
        &self,
        scope: AppScope<'_>,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        answer: Option<&AnswerSlot<Endpoint>>,
    ) -> Result<Endpoint, StoreError> {
        self.memory.endpoints().create(scope, new, secrets, answer).await
    }

    async fn put(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        new: &NewEndpoint,
        secrets: &NewSecrets,
        actor: &str,
    ) -> Result<Created<Endpoint>, StoreError> {
        self.memory.endpoints().put(scope, endpoint, new, secrets, actor).await
    }

    async fn get(&self, scope: AppScope<'_>, endpoint: &EndpointRef) -> Result<Endpoint, StoreError> {
        self.memory.endpoints().get(scope, endpoint).await
    }

    async fn update(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        change: &EndpointChange,
        actor: &str,
    ) -> Result<Endpoint, StoreError> {
        self.memory.endpoints().update(scope, endpoint, change, actor).await
    }

    async fn delete(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        let before = self.memory.with_state(|state| Pending::of(state));
        let deleted = self.memory.endpoints().delete(scope, endpoint, actor).await;
        if self.fault == EndpointFault::DeleteKeepsEvents {
            self.memory.with_state(|state| before.restore(state));
        }
        deleted
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<Endpoint>, StoreError> {
        self.memory.endpoints().list(scope, request).await
    }

    async fn find(&self, id: EndpointId) -> Result<Endpoint, StoreError> {
        self.memory.endpoints().find(id).await
    }

    async fn stats(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Result<EndpointStats, StoreError> {
        self.memory.endpoints().stats(scope, endpoint, since, until).await
    }

    async fn url_destination(&self, url: &DestinationUrl) -> Result<DestinationId, StoreError> {
        self.memory.endpoints().url_destination(url).await
    }

    async fn keys(&self, destination: DestinationId) -> Result<Vec<DestinationKey>, StoreError> {
        self.memory.endpoints().keys(destination).await
    }

    async fn rotate_key(
        &self,
        destination: DestinationId,
        request: &RotateKey<'_>,
        answer: Option<&AnswerSlot<Vec<DestinationKey>>>,
    ) -> Result<Vec<DestinationKey>, StoreError> {
        let mut keys = self.memory.endpoints().rotate_key(destination, request, answer).await?;
        if self.fault == EndpointFault::RotationDropsTheOldKey {
            keys.truncate(1);
            self.memory.with_state(|state| {
                let destination = state.destinations.get_mut(&destination);
                destination.expect("its key was just rotated").keys.truncate(1);
            });
        }
        Ok(keys)
    }

    async fn headers(&self, destination: DestinationId) -> Result<Option<SealedValue>, StoreError> {
        self.memory.endpoints().headers(destination).await
    }

    async fn set_headers(
        &self,
        destination: DestinationId,
        expected: Option<SealedId>,
        headers: Option<&SealedValue>,
    ) -> Result<(), StoreError> {
        self.memory.endpoints().set_headers(destination, expected, headers).await
    }

    async fn profiles(&self, destinations: &[DestinationId]) -> Result<Vec<DestinationProfile>, StoreError> {
        self.memory.endpoints().profiles(destinations).await
    }

    async fn sealed_values(
        &self,
        after: Option<SealedId>,
        limit: usize,
    ) -> Result<Vec<SealedValue>, StoreError> {
        self.memory.endpoints().sealed_values(after, limit).await
    }

    async fn reseal(&self, values: &[Reseal]) -> Result<usize, StoreError> {
        self.memory.endpoints().reseal(values).await
    }
}

#[async_trait]
impl Messages for FaultyMessages {
    async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
        let disabled = self.memory.with_state(|state| self.fault.prepare(state));
        let published = self.memory.messages().publish(request).await;
        self.memory.with_state(|state| self.fault.finish(state, disabled, &published));
        published
    }

    async fn get(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<MessageView, StoreError> {
        self.memory.messages().get(scope, message, with_content).await
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<MessageView>, StoreError> {
        let mut page = self.memory.messages().list(scope, filter, request, with_content).await?;
        if self.fault == MessageFault::PagesSkipOne
            && matches!(request.from, ListFrom::After(_))
            && !page.items.is_empty()
        {
            page.items.remove(0);
        }
        Ok(page)
    }

    async fn expunge(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        self.memory.messages().expunge(scope, message, actor).await
    }

    async fn destinations(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<MessageDestination>, StoreError> {
        self.memory.messages().destinations(scope, message, request).await
    }

    async fn of_endpoint(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<EndpointMessage>, StoreError> {
        self.memory.messages().of_endpoint(scope, endpoint, filter, request, with_content).await
    }

    async fn attempts(
        &self,
        scope: AppScope<'_>,
        filter: &AttemptFilter,
        request: &ListRequest<AttemptId>,
    ) -> Result<List<AttemptRecord>, StoreError> {
        self.memory.messages().attempts(scope, filter, request).await
    }

    async fn attempt(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<AttemptRecord, StoreError> {
        self.memory.messages().attempt(scope, message, attempt).await
    }

    async fn resend(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        endpoint: &EndpointRef,
        actor: &str,
        answer: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError> {
        self.memory.messages().resend(scope, message, endpoint, actor, answer).await
    }
}
