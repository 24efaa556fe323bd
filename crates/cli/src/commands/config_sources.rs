//! The sources of a command's configuration: its flags, the environment and the configuration file.

use std::collections::BTreeMap;
use std::path::PathBuf;

use posthaste_config::{Config, ConfigError, ConfigFile, Sources};

use crate::cli::{CLIENT_VARIABLES, SettingFlags};
use crate::terminal::BadUsage;

/// The flags of a command and the path of its configuration file. Each method reads the environment and the file.
#[derive(Debug, Clone)]
pub(crate) struct ConfigSources {
    file: Option<PathBuf>,
    flags: BTreeMap<String, String>,
}

impl ConfigSources {
    pub(crate) fn new(file: Option<PathBuf>, flags: &SettingFlags) -> Self {
        let flags = flags.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Self { file, flags }
    }

    /// Loads the configuration of a command that delivers: checks all files that values name. Returns all problems as
    /// one error.
    pub(crate) fn load(&self) -> Result<Config, BadUsage> {
        self.build(posthaste_config::load).map_err(|errors| join(&errors))
    }

    /// As [`load`](Self::load), for a command that opens the store and sends nothing: checks only the files of the store.
    pub(crate) fn load_for_store(&self) -> Result<Config, BadUsage> {
        self.build(posthaste_config::load_for_store).map_err(|errors| join(&errors))
    }

    /// As [`load`](Self::load), without checking the files that values name.
    pub(crate) fn parse(&self) -> Result<Config, BadUsage> {
        self.try_parse().map_err(|errors| join(&errors))
    }

    /// As [`parse`](Self::parse), with one error per problem.
    pub(crate) fn try_parse(&self) -> Result<Config, Vec<ConfigError>> {
        self.build(posthaste_config::parse)
    }

    fn build(
        &self,
        build: fn(&Sources<'_>) -> Result<Config, Vec<ConfigError>>,
    ) -> Result<Config, Vec<ConfigError>> {
        let file = ConfigFile::find(self.file.as_deref()).map_err(|error| vec![error])?;
        let env = std::env::vars_os().collect();
        build(&Sources {
            flags: &self.flags,
            env: &env,
            file: file.as_ref(),
            command_variables: &CLIENT_VARIABLES,
        })
    }
}

/// Joins the messages, one per line, each with the program's name.
fn join(errors: &[ConfigError]) -> BadUsage {
    let lines: Vec<_> = errors.iter().map(ToString::to_string).collect();
    BadUsage(lines.join("\nposthaste: "))
}
