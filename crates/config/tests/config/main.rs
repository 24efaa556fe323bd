//! Tests of the configuration, from its sources to the settings of the engine.
#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod conflicts;
mod defaults;
mod documents;
mod file;
mod invalid_values;
mod named_files;
mod precedence;
mod requirements;
mod rules;
mod secrecy;
mod warnings;

use std::collections::BTreeMap;
use std::ffi::OsString;

use posthaste_config::{Config, ConfigError, ConfigFile, Sources};

/// The values that a user sets, by source.
#[derive(Debug, Clone, Default)]
struct UserInput {
    flags: BTreeMap<String, String>,
    env: BTreeMap<OsString, OsString>,
    file: Option<ConfigFile>,
}

impl UserInput {
    /// Sets nothing.
    fn new() -> Self {
        Self::default()
    }

    fn flag(mut self, name: &str, value: &str) -> Self {
        self.flags.insert(name.to_owned(), value.to_owned());
        self
    }

    fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.env.insert(name.into(), value.into());
        self
    }

    fn file(mut self, text: impl Into<String>) -> Self {
        self.file = Some(ConfigFile { path: "posthaste.toml".into(), text: text.into() });
        self
    }

    fn sources(&self) -> Sources<'_> {
        Sources { flags: &self.flags, env: &self.env, file: self.file.as_ref(), command_variables: &[] }
    }

    /// Parses the configuration without reading files. Returns the messages of its errors.
    fn parse(&self) -> Result<Config, Vec<String>> {
        posthaste_config::parse(&self.sources()).map_err(|errors| messages(&errors))
    }

    /// As `parse`, and checks the files that values name.
    fn load(&self) -> Result<Config, Vec<String>> {
        posthaste_config::load(&self.sources()).map_err(|errors| messages(&errors))
    }

    /// As `parse`, and checks the files of the store.
    fn load_for_store(&self) -> Result<Config, Vec<String>> {
        posthaste_config::load_for_store(&self.sources()).map_err(|errors| messages(&errors))
    }

    /// Returns the message of the only error.
    fn only_error(&self) -> String {
        let mut errors = self.parse().expect_err("the configuration is invalid");
        assert_eq!(errors.len(), 1, "{errors:#?}");
        errors.remove(0)
    }
}

fn messages(errors: &[ConfigError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// Sets these environment variables and nothing else.
fn env(pairs: &[(&str, &str)]) -> UserInput {
    pairs.iter().fold(UserInput::new(), |input, (name, value)| input.env(name, *value))
}

fn assert_contains(message: &str, parts: &[&str]) {
    for part in parts {
        assert!(message.contains(part), "{part:?} is not in {message:?}");
    }
}
