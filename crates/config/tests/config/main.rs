//! The configuration, from its sources to what the engine is given.
#![expect(clippy::unwrap_used, reason = "what only sets a test up says enough by failing it")]

mod agreement;
mod criteria;
mod defaults;
mod documents;
mod file;
mod files;
mod precedence;
mod refusals;
mod rules;
mod safety;
mod warnings;

use std::collections::BTreeMap;
use std::ffi::OsString;

use posthaste_config::{Config, ConfigFile, Sources, judge, load, load_for_store};

/// What a user has said, in every place where it can be said.
#[derive(Debug, Clone, Default)]
struct Said {
    flags: BTreeMap<String, String>,
    env: BTreeMap<OsString, OsString>,
    file: Option<ConfigFile>,
}

impl Said {
    fn nothing() -> Self {
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
        Sources { flags: &self.flags, env: &self.env, file: self.file.as_ref(), env_elsewhere: &[] }
    }

    /// The configuration, whatever is in the files that it names, or its problems as they are shown.
    fn load(&self) -> Result<Config, Vec<String>> {
        judge(&self.sources()).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// The same with what is wrong with the files.
    fn load_with_files(&self) -> Result<Config, Vec<String>> {
        load(&self.sources()).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// The same with what is wrong with the store's files.
    fn load_for_store(&self) -> Result<Config, Vec<String>> {
        load_for_store(&self.sources()).map_err(|errors| errors.iter().map(ToString::to_string).collect())
    }

    /// The one problem that there is.
    fn refusal(&self) -> String {
        let mut refusals = self.load().expect_err("the configuration is refused");
        assert_eq!(refusals.len(), 1, "{refusals:#?}");
        refusals.remove(0)
    }
}

/// Set in the environment and nowhere else.
fn env(pairs: &[(&str, &str)]) -> Said {
    pairs.iter().fold(Said::nothing(), |said, (name, value)| said.env(name, *value))
}

fn assert_words(message: &str, words: &[&str]) {
    for word in words {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}
