//! The settings of the `posthaste` command. A flag overrides the environment, the environment overrides the file, and
//! the file overrides the default.
//!
//! ```text
//!  flags, environment, file ─► precedence ─► settings ─► validate ─► Config
//!                              collects      parses      compares    typed values,
//!                              the texts     each text   the values  each with its source
//! ```
//!
//! Module `settings` declares every setting once; parsing, `posthaste config`, flags, the example file and the reference
//! derive from it. [`parse`] is a pure function of its [`Sources`]. [`load`] also reads the files that values name, and
//! [`load_for_store`] only the files that opening the store takes. All problems of a configuration are reported at once,
//! and no message shows a secret.
#![forbid(unsafe_code)]

mod config;
mod database;
mod declaration;
mod declare;
mod documents;
mod effective;
mod error;
mod file;
mod mask;
mod parse;
mod precedence;
mod retry;
mod setting;
mod settings;
mod sources;
mod suggestion;
mod validate;
mod value_type;
mod values;

pub use database::DatabaseUrl;
pub use documents::{example_file, reference, reference_table};
pub use effective::EffectiveSetting;
pub use error::{ConfigError, DisplayValue};
pub use file::{ConfigFile, FILE_DEFAULT};
pub use parse::{Dns, LogFormat, RetryStrategy};
pub use setting::{DefaultValue, Secrecy, Section, Setting};
pub use settings::{Config, setting, settings};
pub use sources::{Source, Sources};
pub use value_type::ValueType;

use validate::FileChecks;

/// Parses and validates a configuration, and checks the files that its values name. Returns all problems.
pub fn load(sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    build(sources, FileChecks::All)
}

/// As [`load`], for a command that opens the store and sends nothing: checks only the files of the store.
pub fn load_for_store(sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    build(sources, FileChecks::Store)
}

/// As [`load`], without reading any file.
pub fn parse(sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    build(sources, FileChecks::None)
}

fn build(sources: &Sources<'_>, files: FileChecks) -> Result<Config, Vec<ConfigError>> {
    let mut values = precedence::collect(sources);
    let mut config = Config::read(&mut values);
    validate::validate(&mut values, &mut config, files);
    (config.settings, config.warnings) = values.finish()?;
    Ok(config)
}
