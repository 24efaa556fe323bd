//! Event types. The primary key of `webhook_event_types` serves every statement.

use async_trait::async_trait;
use posthaste_domain::{
    Description, EventTypeChange, EventTypeName, EventTypeSettings, NewEventType, OrgId, Timestamp,
};
use posthaste_store::{AnswerSlot, Created, EventType, EventTypes, List, ListRequest, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::list::KeyRange;
use super::{answer, names, to_json};
use crate::SqliteStore;
use crate::command::CommandKind;
use crate::error::CallError;
use crate::row;

const COLUMNS: &str = "name, description, schemas, is_deprecated, group_name, feature_flags, archived_at, created_at, updated_at";

fn from_row(row: &Row<'_>) -> rusqlite::Result<EventType> {
    Ok(EventType {
        name: EventTypeName::from_stored(row.get(0)?),
        settings: EventTypeSettings {
            description: Description::from_stored(row.get(1)?),
            schemas: row.get(2)?,
            is_deprecated: row.get(3)?,
            group_name: row.get(4)?,
            feature_flags: names(row, 5, |flag| flag)?.unwrap_or_default(),
        },
        archived_at: row::optional_timestamp(row, 6)?,
        created_at: row::timestamp(row, 7)?,
        updated_at: row::timestamp(row, 8)?,
    })
}

fn find(db: &Connection, org: &OrgId, name: &EventTypeName) -> rusqlite::Result<Option<EventType>> {
    db.prepare_cached(&format!("SELECT {COLUMNS} FROM webhook_event_types WHERE org = ?1 AND name = ?2"))?
        .query_row((org.as_str(), name.as_str()), from_row)
        .optional()
}

fn get(db: &Connection, org: &OrgId, name: &EventTypeName) -> Result<EventType, CallError> {
    Ok(find(db, org, name)?.ok_or_else(|| StoreError::EventTypeNotFound { name: name.clone() })?)
}

/// Returns whether an organisation has an event type, archived or not.
pub(super) fn is_registered(db: &Connection, org: &str, name: &EventTypeName) -> rusqlite::Result<bool> {
    db.prepare_cached("SELECT 1 FROM webhook_event_types WHERE org = ?1 AND name = ?2")?
        .exists((org, name.as_str()))
}

fn write(db: &Connection, org: &OrgId, event_type: &EventType) -> rusqlite::Result<()> {
    let EventTypeSettings { description, schemas, is_deprecated, group_name, feature_flags } =
        &event_type.settings;
    db.prepare_cached(
        "INSERT OR REPLACE INTO webhook_event_types
             (org, name, description, schemas, is_deprecated, group_name, feature_flags, archived_at, created_at,
              updated_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
    )?
    .execute((
        org.as_str(),
        event_type.name.as_str(),
        description.as_str(),
        schemas.as_deref(),
        is_deprecated,
        group_name.as_deref(),
        to_json(feature_flags.iter().map(String::as_str)),
        event_type.archived_at.map(Timestamp::as_micros),
        event_type.created_at.as_micros(),
        event_type.updated_at.as_micros(),
    ))?;
    Ok(())
}

fn create(db: &Connection, now: Timestamp, org: &OrgId, new: &NewEventType) -> Result<EventType, CallError> {
    let existing = find(db, org, &new.name)?;
    match existing.is_some_and(|existing| existing.archived_at.is_none()) {
        true => Err(StoreError::EventTypeTaken { name: new.name.clone() }.into()),
        false => Ok(put(db, now, org, new)?.value),
    }
}

fn put(
    db: &Connection,
    now: Timestamp,
    org: &OrgId,
    new: &NewEventType,
) -> Result<Created<EventType>, CallError> {
    let existing = find(db, org, &new.name)?;
    let (is_new, created_at) = (existing.is_none(), existing.map_or(now, |existing| existing.created_at));
    let event_type = EventType {
        name: new.name.clone(),
        settings: new.settings.clone(),
        archived_at: None,
        created_at,
        updated_at: now,
    };
    write(db, org, &event_type)?;
    Ok(Created { value: event_type, is_new })
}

fn update(
    db: &Connection,
    now: Timestamp,
    org: &OrgId,
    name: &EventTypeName,
    change: &EventTypeChange,
) -> Result<EventType, CallError> {
    let mut event_type = get(db, org, name)?;
    let EventTypeChange { description, schemas, is_archived, is_deprecated, group_name, feature_flags } =
        change.clone();
    let before = event_type.settings;
    event_type.settings = EventTypeSettings {
        description: description.unwrap_or(before.description),
        schemas: schemas.unwrap_or(before.schemas),
        is_deprecated: is_deprecated.unwrap_or(before.is_deprecated),
        group_name: group_name.unwrap_or(before.group_name),
        feature_flags: feature_flags.unwrap_or(before.feature_flags),
    };
    event_type.archived_at = match is_archived {
        None => event_type.archived_at,
        Some(false) => None,
        Some(true) => event_type.archived_at.or(Some(now)),
    };
    event_type.updated_at = now;
    write(db, org, &event_type)?;
    Ok(event_type)
}

fn expunge(db: &Connection, org: &OrgId, name: &EventTypeName) -> Result<(), CallError> {
    let removed = db
        .prepare_cached("DELETE FROM webhook_event_types WHERE org = ?1 AND name = ?2")?
        .execute((org.as_str(), name.as_str()))?;
    if removed == 0 {
        return Err(StoreError::EventTypeNotFound { name: name.clone() }.into());
    }
    Ok(())
}

/// Builds the statement that reads a page of event types.
pub(super) fn list_sql(order: &str) -> String {
    format!(
        "SELECT {COLUMNS} FROM webhook_event_types
         WHERE org = ?1 AND name > ?2 AND name < ?3 AND (?4 OR archived_at IS NULL) ORDER BY name {order}"
    )
}

fn list(
    db: &Connection,
    org: &OrgId,
    include_archived: bool,
    request: &ListRequest<EventTypeName>,
) -> Result<List<EventType>, CallError> {
    // Names consist of letters, digits and three other characters, all of them below the last ASCII character.
    let name = |text: &str| EventTypeName::from_stored(text.to_owned());
    let range = KeyRange::ascending(request, name(""), name("\u{7f}"));
    let mut listed = db.prepare_cached(&list_sql(range.order()))?;
    let bounds = (org.as_str(), range.low.as_str(), range.high.as_str(), include_archived);
    Ok(range.page(listed.query_map(bounds, from_row)?)?)
}

#[async_trait]
impl EventTypes for SqliteStore {
    async fn create(
        &self,
        org: &OrgId,
        new: &NewEventType,
        answer: Option<&AnswerSlot<EventType>>,
    ) -> Result<EventType, StoreError> {
        let (org, new, answer) = (org.clone(), new.clone(), answer.cloned());
        self.write(CommandKind::Other, move |context| {
            let (db, now) = (context.db, context.now);
            answer::change(db, now, answer.as_ref(), || create(db, now, &org, &new))
        })
        .await
    }

    async fn put(&self, org: &OrgId, new: &NewEventType) -> Result<Created<EventType>, StoreError> {
        let (org, new) = (org.clone(), new.clone());
        self.write(CommandKind::Other, move |context| put(context.db, context.now, &org, &new)).await
    }

    async fn get(&self, org: &OrgId, name: &EventTypeName) -> Result<EventType, StoreError> {
        let (org, name) = (org.clone(), name.clone());
        self.read(move |db| get(db, &org, &name)).await
    }

    async fn update(
        &self,
        org: &OrgId,
        name: &EventTypeName,
        change: &EventTypeChange,
    ) -> Result<EventType, StoreError> {
        let (org, name, change) = (org.clone(), name.clone(), change.clone());
        self.write(CommandKind::Other, move |context| update(context.db, context.now, &org, &name, &change))
            .await
    }

    async fn expunge(&self, org: &OrgId, name: &EventTypeName) -> Result<(), StoreError> {
        let (org, name) = (org.clone(), name.clone());
        self.write(CommandKind::Other, move |context| expunge(context.db, &org, &name)).await
    }

    async fn list(
        &self,
        org: &OrgId,
        include_archived: bool,
        request: &ListRequest<EventTypeName>,
    ) -> Result<List<EventType>, StoreError> {
        let (org, request) = (org.clone(), request.clone());
        self.read(move |db| list(db, &org, include_archived, &request)).await
    }
}
