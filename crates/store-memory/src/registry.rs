//! The registry of the store: its tables, and how calls find their rows.

mod answer;
mod application;
mod attempt;
mod endpoint;
mod event_type;
mod keys;
mod message;
mod operation;
mod publish;
mod resend;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use posthaste_domain::{
    ApplicationId, ApplicationRef, Channel, DeliveryOrder, Description, DestinationId, EndpointId,
    EndpointRef, EventTypeName, MessageId, MessageRef, Metadata, OperationId, OrgId, Subscription, Throttle,
    Timestamp, Uid,
};
use posthaste_store::{
    AnswerKey, AppScope, Application, DisabledEndpoint, Endpoint, EventType, KeptAnswer, MessageContent,
    MessageView, Operation, StoreError,
};

use crate::state::State;

pub(crate) use application::remove_deleted as remove_deleted_applications;
pub(crate) use endpoint::{cancel_of_deleted, disable};
pub(crate) use keys::remove_retired as remove_retired_keys;
pub(crate) use message::{expunge_expired, remove_old as remove_old_messages};
pub(crate) use publish::find_enabled;
pub(crate) use resend::add_extra_event;

/// The tables of the registry.
#[derive(Default)]
pub struct Registry {
    pub applications: BTreeMap<ApplicationId, ApplicationRow>,
    pub event_types: BTreeMap<(OrgId, EventTypeName), EventType>,
    pub messages: BTreeMap<MessageKey, Message>,
    pub operations: BTreeMap<OperationId, OperationRow>,
    pub answers: BTreeMap<AnswerKey, AnswerRow>,
    last_application: i64,
    last_message: i64,
    last_operation: i64,
}

/// An application and the state of its throttle. A deleted one stays while its endpoints or messages exist.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationRow {
    pub application: Application,
    pub spent_until: Option<Timestamp>,
    pub deleted_at: Option<Timestamp>,
}

/// What an endpoint has beside what every destination has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndpointRow {
    pub app: ApplicationId,
    pub uid: Option<Uid>,
    pub description: Description,
    pub subscription: Subscription,
    pub throttle: Option<Throttle>,
    pub spent_until: Option<Timestamp>,
    pub order: DeliveryOrder,
    pub metadata: Metadata,
    pub disabled: Option<DisabledEndpoint>,
    pub updated_at: Timestamp,
    pub deleted_at: Option<Timestamp>,
}

/// The key of a message, in the order of publication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageKey(pub i64);

/// A published message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: MessageId,
    pub app: ApplicationId,
    pub uid: Option<Uid>,
    pub event_type: EventTypeName,
    pub channels: BTreeSet<Channel>,
    pub tags: BTreeSet<String>,
    /// `None` once it was expunged.
    pub payload: Option<Bytes>,
    pub content_type: String,
    pub payment_request_id: Option<String>,
    pub session_id: Option<String>,
    pub traceparent: Option<String>,
    pub stored_by: Option<String>,
    pub max_attempts: u32,
    pub created_at: Timestamp,
    pub deliver_at: Timestamp,
    pub payload_expires_at: Timestamp,
}

/// An operation, and where its next step continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperationRow {
    pub operation: Operation,
    /// The key of the last event or message that it examined.
    pub cursor: i64,
    pub spent_until: Option<Timestamp>,
}

/// A kept answer and when it expires.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnswerRow {
    pub kept: KeptAnswer,
    pub expires_at: Timestamp,
}

impl Message {
    fn view(&self, with_content: bool) -> MessageView {
        let content = match (&self.payload, with_content) {
            (None, _) => MessageContent::Expunged,
            (Some(_), false) => MessageContent::Omitted,
            (Some(payload), true) => MessageContent::Payload(payload.clone()),
        };
        MessageView {
            id: self.id,
            app: self.app,
            uid: self.uid.clone(),
            event_type: self.event_type.clone(),
            channels: self.channels.clone(),
            tags: self.tags.clone(),
            content,
            created_at: self.created_at,
            deliver_at: Some(self.deliver_at).filter(|at| *at > self.created_at),
        }
    }
}

impl State {
    /// Finds an application of an organisation.
    fn find_app(&self, scope: AppScope<'_>) -> Result<ApplicationId, StoreError> {
        let is_named = |row: &&ApplicationRow| match scope.app {
            ApplicationRef::Id(id) => row.application.id == *id,
            ApplicationRef::Uid(uid) => row.application.uid.as_ref() == Some(uid),
        };
        let live = |row: &&ApplicationRow| row.deleted_at.is_none() && row.application.org == *scope.org;
        let found = self.registry.applications.values().filter(live).find(is_named);
        let not_found = || StoreError::ApplicationNotFound { app: scope.app.to_string() };
        found.map(|row| row.application.id).ok_or_else(not_found)
    }

    /// Finds an endpoint of an application.
    fn find_endpoint(&self, app: ApplicationId, endpoint: &EndpointRef) -> Result<DestinationId, StoreError> {
        let is_named = |id: DestinationId, row: &EndpointRow| match endpoint {
            EndpointRef::Id(EndpointId(named)) => id == *named,
            EndpointRef::Uid(uid) => row.uid.as_ref() == Some(uid),
        };
        let mut live = self.live_endpoints().filter(|(_, row)| row.app == app);
        let found = live.find(|(id, row)| is_named(*id, row)).map(|(id, _)| id);
        found.ok_or_else(|| StoreError::EndpointNotFound { endpoint: endpoint.to_string() })
    }

    /// The endpoints of all applications that are not deleted.
    fn live_endpoints(&self) -> impl DoubleEndedIterator<Item = (DestinationId, &EndpointRow)> {
        let endpoints = self.destinations.iter().filter_map(|(id, it)| Some((*id, it.endpoint.as_ref()?)));
        endpoints.filter(|(_, row)| row.deleted_at.is_none())
    }

    /// Finds a message of an application.
    fn find_message(&self, app: ApplicationId, message: &MessageRef) -> Result<MessageKey, StoreError> {
        let is_named = |row: &Message| match message {
            MessageRef::Id(id) => row.id == *id,
            MessageRef::Uid(uid) => row.uid.as_ref() == Some(uid),
        };
        let mut messages = self.registry.messages.iter().filter(|(_, row)| row.app == app);
        let found = messages.find(|(_, row)| is_named(row)).map(|(key, _)| *key);
        found.ok_or_else(|| StoreError::MessageNotFound { message: message.to_string() })
    }

    /// The endpoint as callers see it. The caller has found it.
    fn endpoint_view(&self, id: DestinationId) -> Endpoint {
        let destination = &self.destinations[&id];
        let row = destination.endpoint.as_ref().expect("the destination is an endpoint");
        Endpoint {
            id: EndpointId(id),
            app: row.app,
            uid: row.uid.clone(),
            url: destination.url.clone(),
            description: row.description.clone(),
            subscription: row.subscription.clone(),
            throttle: row.throttle,
            order: row.order,
            metadata: row.metadata.clone(),
            disabled: row.disabled,
            created_at: destination.created_at,
            updated_at: row.updated_at,
        }
    }
}
