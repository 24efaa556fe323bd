//! The configuration as the command line, the environment and a file give it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use posthaste::config::{self, Config, ConfigError, ConfigFile, Sources};

use crate::cli::{CLIENT_VARIABLES, SettingFlags};
use crate::terminal::BadUsage;

/// What it takes to load the configuration, and to say what is wrong with it.
#[derive(Debug, Clone)]
pub(crate) struct Given {
    file: Option<PathBuf>,
    flags: BTreeMap<String, String>,
}

impl Given {
    pub(crate) fn new(file: Option<PathBuf>, flags: &SettingFlags) -> Self {
        let flags = flags.given().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { file, flags }
    }

    /// The configuration, or all that is wrong with it as one error.
    pub(crate) fn load(&self) -> Result<Config, BadUsage> {
        self.try_load().map_err(|errors| {
            let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
            BadUsage(lines.join("\nposthaste: "))
        })
    }

    /// The configuration, or each thing that is wrong with it.
    pub(crate) fn try_load(&self) -> Result<Config, Vec<ConfigError>> {
        let file = ConfigFile::find(self.file.as_deref()).map_err(|error| vec![error])?;
        let env = std::env::vars_os().collect();
        config::load(&Sources {
            flags: &self.flags,
            env: &env,
            file: file.as_ref(),
            env_elsewhere: &CLIENT_VARIABLES,
        })
    }
}
