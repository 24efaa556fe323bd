//! What holds, and why: a row of `posthaste config`.

use serde_json::{Value, json};

use super::mask::one_line;
use super::source::Source;
use super::table::{Secrecy, Setting};

/// A setting with its value as text, secrets masked, and where it came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    pub setting: &'static Setting,
    /// None where it is left out and has no default.
    pub value: Option<String>,
    pub source: Source,
}

impl Effective {
    /// Name, value and source, each on one line, for a table.
    pub fn row(&self) -> [String; 3] {
        let value = match &self.value {
            Some(value) => one_line(value),
            None => format!("({})", self.setting.default),
        };
        [self.setting.name.to_owned(), value, self.source.to_string()]
    }

    pub fn to_json(&self) -> Value {
        json!({
            "name": self.setting.name,
            "value": self.value,
            "source": self.source.to_string(),
            "secret": self.is_secret(),
        })
    }

    /// Whether a part of the value, or all of it, is masked.
    pub fn is_secret(&self) -> bool {
        self.setting.secrecy != Secrecy::Open
    }
}
