//! Event types as a store keeps them.

use async_trait::async_trait;
use posthaste_domain::{EventTypeChange, EventTypeName, EventTypeSettings, NewEventType, OrgId, Timestamp};

use super::{AnswerSlot, Created, List, ListRequest};
use crate::StoreError;

/// A stored event type of an organisation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventType {
    pub name: EventTypeName,
    pub settings: EventTypeSettings,
    /// When it was archived. An archived type is hidden, and its name can be registered again.
    pub archived_at: Option<Timestamp>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

/// Access to the event types of a store.
#[async_trait]
pub trait EventTypes: Send + Sync {
    /// Registers an event type. Revives an archived one, with the new settings. Fails with [`StoreError::EventTypeTaken`] if the
    /// name is registered.
    async fn create(
        &self,
        org: &OrgId,
        new: &NewEventType,
        answer: Option<&AnswerSlot<EventType>>,
    ) -> Result<EventType, StoreError>;

    /// Replaces the settings of an event type, which is registered if it is new and revived if it is archived.
    async fn put(&self, org: &OrgId, new: &NewEventType) -> Result<Created<EventType>, StoreError>;

    /// Returns an event type, archived or not.
    async fn get(&self, org: &OrgId, name: &EventTypeName) -> Result<EventType, StoreError>;

    /// Changes some settings of an event type, archived or not.
    async fn update(
        &self,
        org: &OrgId,
        name: &EventTypeName,
        change: &EventTypeChange,
    ) -> Result<EventType, StoreError>;

    /// Removes an event type for good. Subscriptions to it stay.
    async fn expunge(&self, org: &OrgId, name: &EventTypeName) -> Result<(), StoreError>;

    /// Lists event types by name: those that are registered, and the archived ones too if they are asked for.
    async fn list(
        &self,
        org: &OrgId,
        include_archived: bool,
        request: &ListRequest<EventTypeName>,
    ) -> Result<List<EventType>, StoreError>;
}
