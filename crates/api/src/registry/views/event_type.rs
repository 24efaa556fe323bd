//! Event types in requests and responses.

use std::collections::BTreeSet;

use posthaste_domain::{
    Description, EventTypeChange, EventTypeName, EventTypeSettings, InvalidEventType, NewEventType,
};
use posthaste_store::EventType;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::registry::body::nullable;
use crate::registry::error::RegistryError;
use crate::timestamp::Rfc3339;

/// The fields of an event type beside its name.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EventTypePut {
    #[schema(max_length = 1024, example = "An invoice was paid")]
    description: String,
    pub(in crate::registry) archived: Option<bool>,
    deprecated: Option<bool>,
    /// JSON schemas by version, at most 64 KiB.
    #[schema(value_type = Option<Object>)]
    schemas: Option<Box<RawValue>>,
    #[schema(min_length = 1, max_length = 256)]
    group_name: Option<String>,
    #[schema(max_items = 50)]
    feature_flags: Option<Vec<String>>,
}

/// An event type to register.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EventTypeIn {
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$", example = "invoice.paid")]
    name: String,
    #[schema(max_length = 1024, example = "An invoice was paid")]
    description: String,
    deprecated: Option<bool>,
    /// JSON schemas by version, at most 64 KiB.
    #[schema(value_type = Option<Object>)]
    schemas: Option<Box<RawValue>>,
    #[schema(min_length = 1, max_length = 256)]
    group_name: Option<String>,
    #[schema(max_items = 50)]
    feature_flags: Option<Vec<String>>,
}

/// Fields of an event type to change. Null clears a field.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EventTypePatch {
    #[schema(max_length = 1024)]
    description: Option<String>,
    archived: Option<bool>,
    deprecated: Option<bool>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Object>)]
    schemas: Option<Option<Box<RawValue>>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256)]
    group_name: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<String>>, max_items = 50)]
    feature_flags: Option<Option<Vec<String>>>,
}

/// An event type.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EventTypeOut {
    name: String,
    description: String,
    archived: bool,
    deprecated: bool,
    /// JSON schemas by version; null if there are none, or if they were not asked for.
    #[schema(value_type = Option<Object>)]
    schemas: Option<Box<RawValue>>,
    group_name: Option<String>,
    feature_flags: Option<Vec<String>>,
    /// The first feature flag, for older SDKs.
    feature_flag: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
}

impl EventTypePut {
    /// Validates the fields for an event type with this name.
    pub(in crate::registry) fn accept(self, name: EventTypeName) -> Result<NewEventType, RegistryError> {
        let settings = EventTypeSettings {
            description: Description::new(&self.description).map_err(|error| invalid(&error.into()))?,
            schemas: self.schemas.as_deref().map(accept_schemas).transpose()?,
            is_deprecated: self.deprecated.unwrap_or(false),
            group_name: self.group_name,
            feature_flags: accept_flags(self.feature_flags)?,
        };
        Ok(NewEventType { name, settings: settings.validate().map_err(|error| invalid(&error))? })
    }
}

impl EventTypeIn {
    pub(in crate::registry) fn accept(self) -> Result<NewEventType, RegistryError> {
        let name = EventTypeName::new(&self.name).map_err(|error| invalid(&error.into()))?;
        let fields = EventTypePut {
            description: self.description,
            archived: None,
            deprecated: self.deprecated,
            schemas: self.schemas,
            group_name: self.group_name,
            feature_flags: self.feature_flags,
        };
        fields.accept(name)
    }
}

impl EventTypePatch {
    pub(in crate::registry) fn accept(self) -> Result<EventTypeChange, RegistryError> {
        let description = self.description.as_deref().map(Description::new).transpose();
        let schemas =
            self.schemas.map(|schemas| schemas.as_deref().map(accept_schemas).transpose()).transpose()?;
        let change = EventTypeChange {
            description: description.map_err(|error| invalid(&error.into()))?,
            schemas,
            is_archived: self.archived,
            is_deprecated: self.deprecated,
            group_name: self.group_name,
            feature_flags: self.feature_flags.map(accept_flags).transpose()?,
        };
        // The limits of settings hold for changes too.
        let settings = EventTypeSettings {
            schemas: change.schemas.clone().flatten(),
            group_name: change.group_name.clone().flatten(),
            feature_flags: change.feature_flags.clone().unwrap_or_default(),
            ..EventTypeSettings::default()
        };
        settings.validate().map_err(|error| invalid(&error))?;
        Ok(change)
    }
}

fn accept_schemas(schemas: &RawValue) -> Result<String, RegistryError> {
    match schemas.get().starts_with('{') {
        true => Ok(schemas.get().to_owned()),
        false => {
            Err(RegistryError::in_body("schemas", "schemas must be a JSON object: a schema for each version"))
        }
    }
}

/// Turns feature flags into a set. A flag that is named twice counts once.
fn accept_flags(flags: Option<Vec<String>>) -> Result<BTreeSet<String>, RegistryError> {
    let flags = flags.unwrap_or_default();
    match flags.len() {
        0..=50 => Ok(flags.into_iter().collect()),
        count => Err(invalid(&InvalidEventType::FeatureFlags(count))),
    }
}

fn invalid(error: &InvalidEventType) -> RegistryError {
    let field = match error {
        InvalidEventType::Name(_) => "name",
        InvalidEventType::Description(_) => "description",
        InvalidEventType::Schemas(_) => "schemas",
        InvalidEventType::Label { field: "group_name" } => "groupName",
        InvalidEventType::Label { .. } | InvalidEventType::FeatureFlags(_) => "featureFlags",
    };
    RegistryError::in_body(field, error)
}

impl EventTypeOut {
    /// Shows an event type, with its schemas if the caller asked for them.
    pub(in crate::registry) fn new(event_type: &EventType, with_content: bool) -> Self {
        let settings = &event_type.settings;
        let schemas = settings.schemas.as_ref().filter(|_| with_content);
        let flags: Vec<String> = settings.feature_flags.iter().cloned().collect();
        Self {
            name: event_type.name.to_string(),
            description: settings.description.as_str().to_owned(),
            archived: event_type.archived_at.is_some(),
            deprecated: settings.is_deprecated,
            schemas: schemas.and_then(|schemas| RawValue::from_string(schemas.clone()).ok()),
            group_name: settings.group_name.clone(),
            feature_flag: flags.first().cloned(),
            feature_flags: (!flags.is_empty()).then_some(flags),
            created_at: event_type.created_at.into(),
            updated_at: event_type.updated_at.into(),
        }
    }
}
