//! Event types: the registered kinds of messages of an organisation. Messages of other types are accepted too.

use std::collections::BTreeSet;

use crate::{Description, EventTypeName, InvalidEndpoint, InvalidSubscription};

/// Largest schemas of an event type, in bytes of JSON.
const SCHEMAS_LEN_MAX: usize = 65_536;
/// Longest name of a group or a feature flag, in bytes.
const LABEL_LEN_MAX: usize = 256;
/// Most feature flags of an event type.
const FLAGS_MAX: usize = 50;

/// A validated event type, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEventType {
    pub name: EventTypeName,
    pub settings: EventTypeSettings,
}

/// What a caller says about an event type beside its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventTypeSettings {
    pub description: Description,
    /// JSON schemas by version, as JSON text.
    pub schemas: Option<String>,
    pub is_deprecated: bool,
    pub group_name: Option<String>,
    pub feature_flags: BTreeSet<String>,
}

/// Why an event type was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEventType {
    #[error(transparent)]
    Name(#[from] InvalidSubscription),
    #[error(transparent)]
    Description(#[from] InvalidEndpoint),
    #[error("schemas are {0} bytes; at most {SCHEMAS_LEN_MAX} are accepted")]
    Schemas(usize),
    #[error("{field} must be 1 to {LABEL_LEN_MAX} bytes without NUL")]
    Label { field: &'static str },
    #[error("there are {0} feature flags; at most {FLAGS_MAX} are accepted")]
    FeatureFlags(usize),
}

impl EventTypeSettings {
    /// Validates the settings. The caller has parsed the schemas as JSON.
    pub fn validate(self) -> Result<Self, InvalidEventType> {
        if let Some(schemas) = self.schemas.as_ref().filter(|schemas| schemas.len() > SCHEMAS_LEN_MAX) {
            return Err(InvalidEventType::Schemas(schemas.len()));
        }
        let is_label = |text: &String| (1..=LABEL_LEN_MAX).contains(&text.len()) && !text.contains('\0');
        if !self.group_name.iter().all(is_label) {
            return Err(InvalidEventType::Label { field: "group_name" });
        }
        if !self.feature_flags.iter().all(is_label) {
            return Err(InvalidEventType::Label { field: "feature_flags" });
        }
        match self.feature_flags.len() {
            count if count > FLAGS_MAX => Err(InvalidEventType::FeatureFlags(count)),
            _ => Ok(self),
        }
    }
}

/// A change of an event type. `None` leaves a field as it is; an inner `None` clears it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventTypeChange {
    pub description: Option<Description>,
    pub schemas: Option<Option<String>>,
    pub is_archived: Option<bool>,
    pub is_deprecated: Option<bool>,
    pub group_name: Option<Option<String>>,
    pub feature_flags: Option<BTreeSet<String>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_bounded() {
        let settings = EventTypeSettings::default();
        assert_eq!(settings.clone().validate(), Ok(settings.clone()));
        let large = EventTypeSettings { schemas: Some("x".repeat(65_537)), ..settings.clone() };
        assert_eq!(large.validate(), Err(InvalidEventType::Schemas(65_537)));
        let unnamed = EventTypeSettings { group_name: Some(String::new()), ..settings.clone() };
        assert!(unnamed.validate().unwrap_err().to_string().contains("group_name"));
        let flags = (0..51).map(|number| number.to_string()).collect();
        let flagged = EventTypeSettings { feature_flags: flags, ..settings };
        assert_eq!(flagged.validate(), Err(InvalidEventType::FeatureFlags(51)));
    }
}
