//! From a configuration to its database: named, opened, or told why it could not be.

use crate::service::stop::Signals;
use anyhow::{Context as _, bail};
use posthaste::{Database, OpenStore, Options, Posthaste};
use posthaste_config::Config;

use crate::terminal::BadUsage;

/// What the configuration says, before anything is opened: what is wrong with it is bad usage.
pub(crate) fn options(config: &Config) -> Result<Options, BadUsage> {
    config.options().map_err(|error| BadUsage(error.to_string()))
}

pub(crate) fn database(config: &Config) -> Result<Database, BadUsage> {
    config.database().map_err(|error| BadUsage(error.to_string()))
}

/// Where the database is, as it may be shown.
pub(crate) fn place(config: &Config) -> &str {
    config.setting("database_url").and_then(|effective| effective.value.as_deref()).unwrap_or_default()
}

/// Opens the store and what else an instance needs, unless a signal comes first: a server that does not answer must not
/// keep us from stopping.
pub(crate) async fn open(
    signals: &mut Signals,
    options: Options,
    config: &Config,
) -> anyhow::Result<Posthaste> {
    let place = place(config);
    tokio::select! {
        opened = Posthaste::open(options) => opened.with_context(|| format!("cannot start on {place}")),
        signal = signals.next() => bail!("stopped by {signal} before {place} could be opened"),
    }
}

/// Opens what is there, and changes nothing about it.
pub(crate) async fn attach(config: &Config) -> anyhow::Result<OpenStore> {
    let place = place(config);
    database(config)?.open_existing().await.with_context(|| format!("cannot read {place}"))
}
