//! The description of a setting: its names, its rule, its default and its help text.

use std::fmt;

use super::settings::Config;
use super::value_type::ValueType;

/// A setting as flags, environment, file, documents and messages describe it. Two settings are equal if their names are.
pub struct Setting {
    /// The key in the configuration file. The name of the variable and of the flag derive from it.
    pub name: &'static str,
    /// The environment variable, `POSTHASTE_…`.
    pub env: String,
    /// A second environment variable for the same setting, kept for compatibility.
    pub env_alias: Option<&'static str>,
    /// The command-line flag, with its two hyphens.
    pub flag: String,
    /// The section of the documents that lists the setting.
    pub section: Section,
    /// The type of its value in the configuration file.
    pub value_type: ValueType,
    /// The value that applies if no source sets the setting.
    pub default: DefaultValue,
    /// The valid values, as a phrase that follows "must be".
    pub rule: String,
    /// What the setting does, as one line without a full stop.
    pub help: String,
    /// How much of its value may be shown.
    pub secrecy: Secrecy,
}

/// A group of settings in the documents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Section {
    Storage,
    Service,
    Retries,
    Dispatch,
    Receivers,
    Observability,
}

/// The value of a setting that no source sets.
#[derive(Debug, Clone, Copy)]
pub enum DefaultValue {
    /// One text, written as in the environment.
    Text(&'static str),
    /// No value.
    Unset {
        /// What Posthaste does without a value.
        meaning: &'static str,
        /// A value for the example file. The example of a secret is invalid, so that it cannot be used by mistake.
        example: &'static str,
    },
    /// One text per retry strategy.
    ByStrategy { exponential: &'static str, schedule: &'static str },
    /// A text that depends on other settings.
    Computed {
        /// The text if all other settings have their defaults too.
        usual: &'static str,
        /// In words: the text that replaces the usual one, and when.
        otherwise: &'static str,
        /// Returns the text that replaces the usual one, from the values of settings that are declared earlier.
        compute: fn(&Config) -> Option<String>,
    },
}

/// How much of a setting's value may be shown in messages, in logs and by `posthaste config`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Secrecy {
    /// All of it.
    Public,
    /// A URL without its credentials.
    Credentials,
    /// Nothing, not even its length.
    Secret,
}

impl Setting {
    /// Returns the default, or an example if there is none, as TOML.
    pub(crate) fn toml_example(&self) -> String {
        let text = match self.default {
            DefaultValue::Unset { example, .. } => example,
            default => default.usual().unwrap_or_default(),
        };
        self.value_type.to_toml(text)
    }
}

impl PartialEq for Setting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Setting {}

/// Shows the name only.
impl fmt::Debug for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Setting").field(&self.name).finish()
    }
}

/// The heading of the section in the documents.
impl fmt::Display for Section {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Storage => "Storage",
            Self::Service => "Service",
            Self::Retries => "Retries",
            Self::Dispatch => "Dispatch",
            Self::Receivers => "Receivers",
            Self::Observability => "Logs and traces",
        })
    }
}

/// The default in words, with the cases in which it differs.
impl fmt::Display for DefaultValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Unset { meaning, .. } => f.write_str(meaning),
            Self::ByStrategy { exponential, schedule } => {
                write!(f, "{exponential} ({schedule} if retry_strategy is schedule)")
            }
            Self::Computed { usual, otherwise, .. } => write!(f, "{usual} ({otherwise})"),
        }
    }
}

impl DefaultValue {
    /// Returns the default in a configuration that sets nothing, or none if the setting then has no value.
    pub fn usual(&self) -> Option<&'static str> {
        match self {
            Self::Text(text) => Some(text),
            Self::Unset { .. } => None,
            Self::ByStrategy { exponential, .. } => Some(exponential),
            Self::Computed { usual, .. } => Some(usual),
        }
    }
}
