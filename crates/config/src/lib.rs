//! The configuration: flag over environment over file over default.
//!
//! ```text
//!  flags, environment, file ─► gather ─► read ─► check ─► files ─► Config
//!                              which      what    do they   can they   typed values, and
//!                              text wins  it is   agree     be read    where each came from
//! ```
//!
//! [`judge`] is a pure function of its [`Sources`]; it touches neither the environment nor the disk. [`load`] reads the
//! files that the values name as well, so that nothing that is made of a configuration fails for its sake, and
//! [`load_for_store`] those that it takes to open the store. [`SETTINGS`] is the one table: loading, what `posthaste config` prints, the example file and the reference all derive from it. All
//! problems are found at once, each in the words of whoever wrote the value, and none shows a secret.
#![forbid(unsafe_code)]

mod check;
mod database;
mod documents;
mod effective;
mod error;
mod file;
mod files;
mod gather;
mod mask;
mod nearest;
mod options;
mod read;
mod reading;
mod redacted;
mod retry;
mod source;
mod table;
mod typed;
mod values;

pub use database::DatabaseUrl;
pub use documents::{example_file, reference, reference_table};
pub use effective::Effective;
pub use error::{ConfigError, Written};
pub use file::{ConfigFile, FILE_DEFAULT};
pub use redacted::Redacted;
pub use source::{Source, Sources};
pub use table::{Fallback, Form, SETTINGS, Secrecy, Section, Setting, setting};
pub use typed::Config;
pub use values::{Dns, LogFormat};

/// The configuration that these sources make, or everything that is wrong with them and with the files that they name.
pub fn load(sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    made_of(sources, files::check)
}

/// As [`load`], for whoever opens the store and sends nothing: of the files, only the store's are read.
pub fn load_for_store(sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    made_of(sources, files::check_store)
}

/// As [`load`], whatever is in the files.
pub fn judge(sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    made_of(sources, |_, _| {})
}

fn made_of(
    sources: &Sources<'_>,
    check_files: fn(&mut reading::Reading, &Config),
) -> Result<Config, Vec<ConfigError>> {
    let mut reading = gather::gather(sources);
    let mut config = read::read(&mut reading);
    check::check(&mut reading, &config);
    check_files(&mut reading, &config);
    let (effective, warnings) = reading.finish()?;
    config.settings = effective;
    config.warnings = warnings;
    Ok(config)
}
