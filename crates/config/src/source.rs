//! Where values come from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use super::file::ConfigFile;

/// Everything that a configuration is made of.
#[derive(Debug, Clone, Copy)]
pub struct Sources<'a> {
    /// By the name of the setting, as in `listen`.
    pub flags: &'a BTreeMap<String, String>,
    pub env: &'a BTreeMap<OsString, OsString>,
    pub file: Option<&'a ConfigFile>,
    /// Variables that begin as ours do and are no settings: what commands read for themselves.
    pub env_elsewhere: &'a [&'a str],
}

impl Sources<'_> {
    /// Nothing said: every setting takes its default.
    pub const NONE: Sources<'static> =
        Sources { flags: &BTreeMap::new(), env: &BTreeMap::new(), file: None, env_elsewhere: &[] };
}

/// Where the value of a setting comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    Default,
    File { path: PathBuf, line: usize },
    Environment(&'static str),
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
