//! Messages: lists, content and retention.

use std::cmp::Reverse;

use async_trait::async_trait;
use posthaste_domain::{
    ApplicationId, AttemptId, DeliveryStatus, DestinationId, EndpointId, EndpointRef, EventId, MessageId,
    MessageRef, Timestamp,
};
use posthaste_store::{
    ActionRequest, AnswerSlot, AppScope, AttemptFilter, AttemptRecord, EndpointMessage, EventView, List,
    ListRequest, MessageDestination, MessageFilter, MessageView, Messages, Publication, PublishRequest,
    StoreError,
};

use super::answer::change;
use super::{Message, MessageKey, attempt, publish, resend};
use crate::MemoryStore;
use crate::operate;
use crate::state::State;

/// Why pending events of an expunged message are cancelled, in the audit log.
const EXPUNGED: &str = "the payload was removed";

/// Removes the payload of a message, and cancels its pending events.
fn expunge(state: &mut State, now: Timestamp, key: MessageKey, actor: &str) {
    let is_pending_of =
        |row: &crate::state::Row| row.message_key == Some(key) && row.status == DeliveryStatus::Pending;
    let pending: Vec<EventId> =
        state.rows.values().filter(|row| is_pending_of(row)).map(|row| row.event_id.clone()).collect();
    for event in &pending {
        operate::cancel(state, now, event, ActionRequest::from(actor), Some(EXPUNGED))
            .expect("a pending event can be cancelled");
    }
    message_mut(state, key).payload = None;
    state.revision += 1;
}

fn message_mut(state: &mut State, key: MessageKey) -> &mut Message {
    state.registry.messages.get_mut(&key).expect("the caller found the message")
}

/// Removes up to `rows_max` expired payloads of messages that have no pending event. Returns whether there may be more.
pub(crate) fn expunge_expired(state: &mut State, now: Timestamp, rows_max: usize) -> bool {
    let is_pending = |key: MessageKey| {
        let of_message = |row: &&crate::state::Row| row.message_key == Some(key);
        state.rows.values().filter(of_message).any(|row| row.status == DeliveryStatus::Pending)
    };
    let is_expired = |row: &Message| row.payload.is_some() && row.payload_expires_at <= now;
    let expired = state.registry.messages.iter().filter(|(_, row)| is_expired(row)).map(|(key, _)| *key);
    let expired: Vec<MessageKey> = expired.filter(|key| !is_pending(*key)).take(rows_max).collect();
    for key in &expired {
        message_mut(state, *key).payload = None;
    }
    expired.len() == rows_max
}

/// Removes up to `rows_max` messages that have no event and were published before the horizon. Returns whether there may be
/// more.
pub(crate) fn remove_old(state: &mut State, horizon: Timestamp, rows_max: usize) -> bool {
    let used: std::collections::BTreeSet<MessageKey> =
        state.rows.values().filter_map(|row| row.message_key).collect();
    let old = state.registry.messages.iter().filter(|(_, row)| row.created_at <= horizon);
    let unused = old.map(|(key, _)| *key).filter(|key| !used.contains(key));
    let removed: Vec<MessageKey> = unused.take(rows_max).collect();
    for key in &removed {
        state.registry.messages.remove(key);
    }
    removed.len() == rows_max
}

/// Lists messages, newest first. `message` returns the message of an item, and its key orders the items.
fn list<T>(
    state: &State,
    app: ApplicationId,
    filter: &MessageFilter,
    request: &ListRequest<MessageId>,
    item: impl Fn(MessageKey, &Message) -> Option<T>,
) -> List<T> {
    let key_of = |id: &MessageId| state.find_message(app, &MessageRef::Id(*id)).ok();
    let Some(request) = request.try_map(key_of) else { return List::empty() };
    let of_app = state.registry.messages.iter().rev().filter(|(_, row)| row.app == app);
    let matching = of_app.filter(|(_, row)| filter.includes(&row.view(false)));
    let items: Vec<(MessageKey, T)> =
        matching.filter_map(|(key, row)| Some((*key, item(*key, row)?))).collect();
    let List { items, done } = request.cut(items, |(key, _), from| Reverse(*key).cmp(&Reverse(*from)));
    List { items: items.into_iter().map(|(_, item)| item).collect(), done }
}

/// Returns the first event of a message for an endpoint.
fn first_event(state: &State, message: MessageId, destination: DestinationId) -> Option<EventView> {
    let key = *state.keys.get(&EventId::of_fan_out(message, destination))?;
    Some(state.rows[&key].view(key))
}

fn destinations(
    state: &State,
    app: ApplicationId,
    message: &MessageRef,
    request: &ListRequest<EndpointId>,
) -> Result<List<MessageDestination>, StoreError> {
    let message = state.registry.messages[&state.find_message(app, message)?].id;
    let of_app = state.live_endpoints().rev().filter(|(_, row)| row.app == app);
    let with_event = of_app.filter_map(|(id, _)| {
        Some(MessageDestination {
            endpoint: state.endpoint_view(id),
            event: first_event(state, message, id)?,
        })
    });
    let compare = |item: &MessageDestination, id: &EndpointId| Reverse(item.endpoint.id).cmp(&Reverse(*id));
    Ok(request.cut(with_event.collect(), compare))
}

#[async_trait]
impl Messages for MemoryStore {
    async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
        let published = self.transact(|state, now| {
            change(state, now, request.answer.as_ref(), |state| publish::publish(state, now, request))
        })?;
        if published.event_count > 0 {
            self.waker.wake();
        }
        Ok(published)
    }

    async fn get(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<MessageView, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            state.find_message(app, message).map(|key| state.registry.messages[&key].view(with_content))
        })
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<MessageView>, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            Ok(list(state, app, filter, request, |_, row| Some(row.view(with_content))))
        })
    }

    async fn expunge(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        self.transact(|state, now| {
            let app = state.find_app(scope)?;
            let key = state.find_message(app, message)?;
            expunge(state, now, key, actor);
            Ok(())
        })
    }

    async fn destinations(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<MessageDestination>, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            destinations(state, app, message, request)
        })
    }

    async fn of_endpoint(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<EndpointMessage>, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            let endpoint = state.find_endpoint(app, endpoint)?;
            Ok(list(state, app, filter, request, |_, row| {
                let event = first_event(state, row.id, endpoint)?;
                Some(EndpointMessage { message: row.view(with_content), event })
            }))
        })
    }

    async fn attempts(
        &self,
        scope: AppScope<'_>,
        filter: &AttemptFilter,
        request: &ListRequest<AttemptId>,
    ) -> Result<List<AttemptRecord>, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            attempt::list(state, app, filter, request)
        })
    }

    async fn attempt(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<AttemptRecord, StoreError> {
        self.transact(|state, _| {
            let app = state.find_app(scope)?;
            attempt::find(state, app, message, attempt)
        })
    }

    async fn resend(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        endpoint: &EndpointRef,
        actor: &str,
        answer: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError> {
        let resent = self.transact(|state, now| {
            change(state, now, answer, |state| {
                let app = state.find_app(scope)?;
                resend::resend(state, now, app, message, endpoint, actor)
            })
        });
        self.waker.wake();
        resent
    }
}
