//! What can be wrong with a configuration, in the words of whoever wrote it.
//!
//! Every message names the setting as it was written (variable, key and line, or flag), its value without secrets, the
//! rule, and the way out.

use std::fmt;
use std::path::PathBuf;

use super::source::Source;
use super::table::Setting;

/// A value as its user wrote it, safe to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Written {
    pub setting: &'static Setting,
    pub source: Source,
    pub shown: String,
}

impl fmt::Display for Written {
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

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("{written}: {reason}; {} must be {}. Left out, it is: {}",
        written.setting.name, written.setting.rule, written.setting.default)]
    Invalid { written: Written, reason: String },
    /// Each value by itself would do; `reason` says what does not and the ways out.
    #[error("{written}: {reason}")]
    Refused { written: Written, reason: String },
    #[error("{} and {} name one setting, {}, and differ; remove one of them", .0[0], .0[1], .0[0].setting.name)]
    TwoNames(Box<[Written; 2]>),
    #[error("{}, line {line}: {key} is not a setting; {}", path.display(), Meant(*nearest))]
    UnknownKey { path: PathBuf, line: usize, key: String, nearest: Option<&'static str> },
    #[error(
        "{}, line {line}: {} is {found}, and must be {}; write {} = {}",
        path.display(), setting.name, setting.form, setting.name, setting.example_in_file()
    )]
    WrongType { path: PathBuf, line: usize, setting: &'static Setting, found: &'static str },
    #[error("{}, line {line}: {} is empty; remove the line, and it is: {}",
        path.display(), setting.name, setting.default)]
    EmptyKey { path: PathBuf, line: usize, setting: &'static Setting },
    #[error("{} is empty; give it a value, or leave it out, and it is: {}", setting.flag, setting.default)]
    EmptyFlag { setting: &'static Setting },
    #[error("{}, line {line}: this is not TOML: {reason}; correct the line", path.display())]
    Malformed { path: PathBuf, line: usize, reason: String },
    #[error("{name} is not a setting; {}", Meant(*nearest))]
    UnknownFlag { name: String, nearest: Option<&'static str> },
    #[error("{name} is not UTF-8 text; {} must be {}", setting.name, setting.rule)]
    NotUnicode { name: &'static str, setting: &'static Setting },
    #[error("the configuration file {} cannot be used: {reason}", path.display())]
    File { path: PathBuf, reason: String },
}

impl ConfigError {
    /// The setting at fault, where it is one.
    pub fn setting(&self) -> Option<&'static Setting> {
        match self {
            Self::Invalid { written, .. } | Self::Refused { written, .. } => Some(written.setting),
            Self::TwoNames(written) => Some(written[0].setting),
            Self::WrongType { setting, .. }
            | Self::EmptyKey { setting, .. }
            | Self::EmptyFlag { setting }
            | Self::NotUnicode { setting, .. } => Some(setting),
            Self::UnknownKey { .. }
            | Self::Malformed { .. }
            | Self::UnknownFlag { .. }
            | Self::File { .. } => None,
        }
    }
}

/// The way out for a name that is not known.
pub(super) struct Meant(pub(super) Option<&'static str>);

impl fmt::Display for Meant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(name) => write!(f, "did you mean {name}?"),
            None => f.write_str("`posthaste config --help` lists all settings"),
        }
    }
}
