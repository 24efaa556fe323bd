//! The configuration as the command line, the environment and a file give it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use posthaste_config::{Config, ConfigError, ConfigFile, Sources};

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

    /// The configuration of whoever delivers, or all that is wrong with it and with its files, as one error.
    pub(crate) fn load(&self) -> Result<Config, BadUsage> {
        self.made_by(posthaste_config::load).map_err(|errors| as_one(&errors))
    }

    /// The same for whoever opens the store alone.
    pub(crate) fn load_for_store(&self) -> Result<Config, BadUsage> {
        self.made_by(posthaste_config::load_for_store).map_err(|errors| as_one(&errors))
    }

    /// The same for whoever uses none of the files that it names.
    pub(crate) fn judge(&self) -> Result<Config, BadUsage> {
        self.try_judge().map_err(|errors| as_one(&errors))
    }

    /// The configuration whatever is in its files, or each thing that is wrong with it.
    pub(crate) fn try_judge(&self) -> Result<Config, Vec<ConfigError>> {
        self.made_by(posthaste_config::judge)
    }

    fn made_by(
        &self,
        make: fn(&Sources<'_>) -> Result<Config, Vec<ConfigError>>,
    ) -> Result<Config, Vec<ConfigError>> {
        let file = ConfigFile::find(self.file.as_deref()).map_err(|error| vec![error])?;
        let env = std::env::vars_os().collect();
        make(&Sources {
            flags: &self.flags,
            env: &env,
            file: file.as_ref(),
            env_elsewhere: &CLIENT_VARIABLES,
        })
    }
}

fn as_one(errors: &[ConfigError]) -> BadUsage {
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    BadUsage(lines.join("\nposthaste: "))
}
