//! The rows of `posthaste config`: every setting with its value and its source.

use serde_json::{Value, json};

use super::mask::escape_controls;
use super::setting::{Secrecy, Setting};
use super::sources::Source;

/// The value of a setting as text, with secrets masked, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EffectiveSetting {
    pub setting: &'static Setting,
    /// None if no source sets it and it has no default.
    pub value: Option<String>,
    pub source: Source,
}

impl EffectiveSetting {
    /// Returns name, value and source, each on one line, for a table.
    pub fn row(&self) -> [String; 3] {
        let value = match &self.value {
            Some(value) => escape_controls(value),
            None => format!("({})", self.setting.default),
        };
        [self.setting.name.to_owned(), value, self.source.to_string()]
    }

    /// Returns the setting as an object of `posthaste config --json`.
    pub fn to_json(&self) -> Value {
        json!({
            "name": self.setting.name,
            "value": self.value,
            "source": self.source.to_string(),
            "secret": self.is_secret(),
        })
    }

    /// Returns whether a part of the value, or all of it, may be masked.
    pub fn is_secret(&self) -> bool {
        self.setting.secrecy != Secrecy::Public
    }
}
