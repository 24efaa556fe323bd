//! The sources of values: flags, environment variables, the configuration file and defaults.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::file::ConfigFile;

/// The sources that a configuration is parsed from.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// Values of flags, by the name of the setting, such as `listen`.
    pub flags: &'a BTreeMap<String, String>,
    /// All environment variables.
    pub env: &'a BTreeMap<OsString, OsString>,
    /// The configuration file, if there is one.
    pub file: Option<&'a ConfigFile>,
    /// Variables that start with `POSTHASTE_` but are read by commands and are not settings.
    pub command_variables: &'a [&'a str],
}

impl Sources<'_> {
    /// Sources that set nothing: every setting has its default.
    pub const NONE: Sources<'static> =
        Sources { flags: &BTreeMap::new(), env: &BTreeMap::new(), file: None, command_variables: &[] };
}

/// The source of one value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    File {
        path: PathBuf,
        line: usize,
    },
    /// An environment variable, by name.
    Environment(&'static str),
    /// A flag, with its two hyphens.
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
            Self::Environment(name) => f.write_str(name),
            Self::Flag(flag) => f.write_str(flag),
        }
    }
}
