//! Event types.

use async_trait::async_trait;
use posthaste_domain::{EventTypeChange, EventTypeName, NewEventType, OrgId, Timestamp};
use posthaste_store::{AnswerSlot, Created, EventType, EventTypes, List, ListRequest, StoreError};

use super::answer;
use crate::MemoryStore;
use crate::state::State;

fn create(
    state: &mut State,
    now: Timestamp,
    org: &OrgId,
    new: &NewEventType,
) -> Result<EventType, StoreError> {
    let existing = state.registry.event_types.get(&(org.clone(), new.name.clone()));
    match existing.is_some_and(|existing| existing.archived_at.is_none()) {
        true => Err(StoreError::EventTypeTaken { name: new.name.clone() }),
        false => Ok(put(state, now, org, new).value),
    }
}

fn put(state: &mut State, now: Timestamp, org: &OrgId, new: &NewEventType) -> Created<EventType> {
    let key = (org.clone(), new.name.clone());
    let existing = state.registry.event_types.get(&key);
    let (is_new, created_at) = (existing.is_none(), existing.map_or(now, |existing| existing.created_at));
    let event_type = EventType {
        name: new.name.clone(),
        settings: new.settings.clone(),
        archived_at: None,
        created_at,
        updated_at: now,
    };
    state.registry.event_types.insert(key, event_type.clone());
    Created { value: event_type, is_new }
}

fn find_mut<'a>(
    state: &'a mut State,
    org: &OrgId,
    name: &EventTypeName,
) -> Result<&'a mut EventType, StoreError> {
    let found = state.registry.event_types.get_mut(&(org.clone(), name.clone()));
    found.ok_or_else(|| StoreError::EventTypeNotFound { name: name.clone() })
}

fn update(
    event_type: &mut EventType,
    now: Timestamp,
    EventTypeChange { description, schemas, is_archived, is_deprecated, group_name, feature_flags }: EventTypeChange,
) {
    let settings = &mut event_type.settings;
    settings.description = description.unwrap_or_else(|| settings.description.clone());
    settings.schemas = schemas.unwrap_or_else(|| settings.schemas.clone());
    settings.is_deprecated = is_deprecated.unwrap_or(settings.is_deprecated);
    settings.group_name = group_name.unwrap_or_else(|| settings.group_name.clone());
    settings.feature_flags = feature_flags.unwrap_or_else(|| settings.feature_flags.clone());
    event_type.archived_at = match is_archived {
        None => event_type.archived_at,
        Some(false) => None,
        Some(true) => event_type.archived_at.or(Some(now)),
    };
    event_type.updated_at = now;
}

#[async_trait]
impl EventTypes for MemoryStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewEventType,
        answer: Option<&AnswerSlot<EventType>>,
    ) -> Result<EventType, StoreError> {
        self.transact(|state, now| answer::change(state, now, answer, |state| create(state, now, org, new)))
    }

    async fn put(&self, org: &OrgId, new: &NewEventType) -> Result<Created<EventType>, StoreError> {
        Ok(self.transact(|state, now| put(state, now, org, new)))
    }

    async fn get(&self, org: &OrgId, name: &EventTypeName) -> Result<EventType, StoreError> {
        self.transact(|state, _| find_mut(state, org, name).cloned())
    }

    async fn update(
        &self,
        org: &OrgId,
        name: &EventTypeName,
        change: &EventTypeChange,
    ) -> Result<EventType, StoreError> {
        self.transact(|state, now| {
            let event_type = find_mut(state, org, name)?;
            update(event_type, now, change.clone());
            Ok(event_type.clone())
        })
    }

    async fn expunge(&self, org: &OrgId, name: &EventTypeName) -> Result<(), StoreError> {
        self.transact(|state, _| {
            let removed = state.registry.event_types.remove(&(org.clone(), name.clone()));
            removed.map(drop).ok_or_else(|| StoreError::EventTypeNotFound { name: name.clone() })
        })
    }

    async fn list(
        &self,
        org: &OrgId,
        include_archived: bool,
        request: &ListRequest<EventTypeName>,
    ) -> Result<List<EventType>, StoreError> {
        Ok(self.transact(|state, _| {
            let of_org = state.registry.event_types.iter().filter(|((owner, _), _)| owner == org);
            let listed = of_org.map(|(_, it)| it).filter(|it| include_archived || it.archived_at.is_none());
            request.cut(listed.cloned().collect(), |event_type, name| event_type.name.cmp(name))
        }))
    }
}
