//! Messages as a store keeps them: publishing, lists, attempts and resends.

use std::collections::BTreeSet;
use std::fmt;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::{
    ApplicationId, ApplicationRef, AttemptId, Channel, EndpointId, EndpointRef, EventId, EventTypeName,
    MessageId, MessageRef, NewApplication, NewMessage, OrgId, Timestamp, Uid,
};

use super::{AnswerSlot, AppScope, AttemptFilter, AttemptRecord, Endpoint, List, ListRequest};
use crate::{EventView, StoreError};

/// A request to publish a message to the endpoints of an application.
#[derive(Debug, Clone)]
pub struct PublishRequest {
    pub org: OrgId,
    pub app: ApplicationRef,
    /// An application to create in the same transaction, if `app` is a uid that no application has.
    pub create_app: Option<NewApplication>,
    pub message: NewMessage,
    /// Sends the message to this endpoint alone, whatever its subscription.
    pub only_endpoint: Option<EndpointRef>,
    /// The name of the API key of the producer. `None` if the producer used no key.
    pub stored_by: Option<String>,
    pub answer: Option<AnswerSlot<Publication>>,
}

impl PublishRequest {
    /// Builds a request of a producer without an API key.
    pub fn new(org: OrgId, app: ApplicationRef, message: NewMessage) -> Self {
        Self { org, app, create_app: None, message, only_endpoint: None, stored_by: None, answer: None }
    }
}

/// A published message, and how many endpoints get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    pub message: MessageView,
    pub event_count: u64,
}

/// A stored message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageView {
    pub id: MessageId,
    pub app: ApplicationId,
    pub uid: Option<Uid>,
    pub event_type: EventTypeName,
    pub channels: BTreeSet<Channel>,
    pub tags: BTreeSet<String>,
    pub content: MessageContent,
    pub created_at: Timestamp,
    /// When the first attempt is due, if that is later than the message.
    pub deliver_at: Option<Timestamp>,
}

/// The payload of a message, as far as the caller asked for it and the store still has it.
#[derive(Clone, PartialEq, Eq)]
pub enum MessageContent {
    /// The caller did not ask for it.
    Omitted,
    Payload(Bytes),
    /// The payload was removed, by a caller or by retention.
    Expunged,
}

/// Omits the payload, so that it never reaches a log.
impl fmt::Debug for MessageContent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Omitted => f.write_str("Omitted"),
            Self::Payload(payload) => write!(f, "Payload({} bytes)", payload.len()),
            Self::Expunged => f.write_str("Expunged"),
        }
    }
}

/// Filters of a list of messages. An empty filter matches every message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MessageFilter {
    pub event_types: Option<BTreeSet<EventTypeName>>,
    pub channel: Option<Channel>,
    pub tag: Option<String>,
    /// Messages that were published earlier.
    pub before: Option<Timestamp>,
    /// Messages that were published later.
    pub after: Option<Timestamp>,
}

impl MessageFilter {
    /// Returns whether the list contains a message.
    pub fn includes(&self, message: &MessageView) -> bool {
        self.event_types.as_ref().is_none_or(|types| types.contains(&message.event_type))
            && self.channel.as_ref().is_none_or(|channel| message.channels.contains(channel))
            && self.tag.as_ref().is_none_or(|tag| message.tags.contains(tag))
            && self.before.is_none_or(|before| message.created_at < before)
            && self.after.is_none_or(|after| message.created_at > after)
    }
}

/// An endpoint that gets a message, with its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageDestination {
    pub endpoint: Endpoint,
    pub event: EventView,
}

/// A message that an endpoint gets, with its event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointMessage {
    pub message: MessageView,
    pub event: EventView,
}

/// Access to the messages of a store.
#[async_trait]
pub trait Messages: Send + Sync {
    /// Stores a message, and an event for each endpoint that is enabled and whose subscription matches now. All of it is one
    /// commit, durable before the call returns. A message without an endpoint is stored too.
    async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError>;

    async fn get(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<MessageView, StoreError>;

    /// Lists the messages of an application, newest first.
    async fn list(
        &self,
        scope: AppScope<'_>,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<MessageView>, StoreError>;

    /// Removes the payload of a message, and cancels its pending events.
    async fn expunge(&self, scope: AppScope<'_>, message: &MessageRef, actor: &str)
    -> Result<(), StoreError>;

    /// Lists the endpoints that get a message, by id, descending. Each comes with its first event for the message; extra events
    /// of resends are left out, as are deleted endpoints.
    async fn destinations(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<MessageDestination>, StoreError>;

    /// Lists the messages that an endpoint gets, newest first, each with its first event for the endpoint.
    async fn of_endpoint(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<EndpointMessage>, StoreError>;

    /// Lists the attempts of a message or of an endpoint, most recently recorded first.
    async fn attempts(
        &self,
        scope: AppScope<'_>,
        filter: &AttemptFilter,
        request: &ListRequest<AttemptId>,
    ) -> Result<List<AttemptRecord>, StoreError>;

    /// Returns one attempt of a message.
    async fn attempt(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<AttemptRecord, StoreError>;

    /// Sends a message to an endpoint again, whatever the endpoint's subscription. A failed event is reopened, as a requeue
    /// does. If the event is pending or delivered, an extra event with one attempt is added. If there is none, it is added,
    /// with one attempt. Returns the event that is sent.
    async fn resend(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        endpoint: &EndpointRef,
        actor: &str,
        answer: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError>;
}
