//! The errors of a configuration.
//!
//! Every message names the setting as the user wrote it (variable, key and line, or flag), its value without secrets, the
//! rule, and what to do.

use std::fmt;
use std::path::PathBuf;

use super::setting::Setting;
use super::sources::Source;

/// A value with its source, masked and shortened for a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DisplayValue {
    pub setting: &'static Setting,
    pub source: Source,
    pub shown: String,
}

/// The value as its source writes it, such as `POSTHASTE_DNS=own`.
impl fmt::Display for DisplayValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { setting, source, shown } = self;
        match source {
            Source::Default => write!(f, "{} = {shown}, the default", setting.name),
            Source::File { path, line } => {
                write!(f, "{}, line {line}: {} = {shown}", path.display(), setting.name)
            }
            Source::Environment(name) => write!(f, "{name}={shown}"),
            Source::Flag(flag) => write!(f, "{flag} {shown}"),
        }
    }
}

/// A problem of a configuration. Loading a configuration returns all of its problems.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// A value breaks the rule of its setting.
    #[error("{value}: {reason}; {} must be {}. The default is: {}",
        value.setting.name, value.setting.rule, value.setting.default)]
    Invalid { value: DisplayValue, reason: String },
    /// A value is valid alone, but conflicts with others. The reason says what to change.
    #[error("{value}: {reason}")]
    Conflict { value: DisplayValue, reason: String },
    /// The two environment variables of one setting have different values.
    #[error("{} and {} are both the setting {} and differ; remove one of them", .0[0], .0[1], .0[0].setting.name)]
    AliasConflict(Box<[DisplayValue; 2]>),
    /// The file has a key that is not a setting.
    #[error("{}, line {line}: {key} is not a setting; {}", path.display(), Hint(*nearest))]
    UnknownKey { path: PathBuf, line: usize, key: String, nearest: Option<&'static str> },
    /// The file has a section.
    #[error("{}, line {line}: {key} is not a setting, because the file has no sections; {}", path.display(), Hint(*nearest))]
    InSection { path: PathBuf, line: usize, key: String, nearest: Option<&'static str> },
    /// A value in the file has the wrong TOML type.
    #[error(
        "{}, line {line}: {} is {found}, and must be {}; write {} = {}",
        path.display(), setting.name, setting.value_type, setting.name, setting.toml_example()
    )]
    WrongType { path: PathBuf, line: usize, setting: &'static Setting, found: &'static str },
    /// A value in the file is empty.
    #[error("{}, line {line}: {} is empty; remove the line to use the default: {}",
        path.display(), setting.name, setting.default)]
    EmptyKey { path: PathBuf, line: usize, setting: &'static Setting },
    /// The value of a flag is empty.
    #[error("{} is empty; add a value, or remove the flag to use the default: {}", setting.flag, setting.default)]
    EmptyFlag { setting: &'static Setting },
    /// The file is not TOML.
    #[error("{}, line {line}: this is not TOML: {reason}; correct the line", path.display())]
    Malformed { path: PathBuf, line: usize, reason: String },
    /// A flag is not a setting.
    #[error("{name} is not a setting; {}", Hint(*nearest))]
    UnknownFlag { name: String, nearest: Option<&'static str> },
    /// An environment variable is not UTF-8.
    #[error("{name} is not UTF-8 text; {} must be {}", setting.name, setting.rule)]
    NotUnicode { name: &'static str, setting: &'static Setting },
    /// The configuration file cannot be read.
    #[error("the configuration file {} cannot be used: {reason}", path.display())]
    File { path: PathBuf, reason: String },
}

impl ConfigError {
    /// Returns the setting that the error is about, or None if it is not about a setting.
    pub fn setting(&self) -> Option<&'static Setting> {
        match self {
            Self::Invalid { value, .. } | Self::Conflict { value, .. } => Some(value.setting),
            Self::AliasConflict(values) => Some(values[0].setting),
            Self::WrongType { setting, .. }
            | Self::EmptyKey { setting, .. }
            | Self::EmptyFlag { setting }
            | Self::NotUnicode { setting, .. } => Some(setting),
            Self::UnknownKey { .. }
            | Self::InSection { .. }
            | Self::Malformed { .. }
            | Self::UnknownFlag { .. }
            | Self::File { .. } => None,
        }
    }
}

/// The advice for an unknown name: the nearest name, or where all names are listed.
pub(crate) struct Hint(pub(crate) Option<&'static str>);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "did you mean {name}?"),
            None => f.write_str("`posthaste config --help` lists all settings"),
        }
    }
}
