//! Opens the database of a configuration, with errors that name it.

use crate::service::http;
use crate::service::open_files::OpenFilesLimit;
use crate::service::shutdown::ProcessSignals;
use anyhow::{Context as _, bail};
use posthaste::{Database, OpenStore, Options, Posthaste};
use posthaste_config::Config;

use crate::terminal::BadUsage;

/// Returns the library's options for a configuration. An error is bad usage; nothing has been opened yet.
pub(crate) fn options(config: &Config) -> Result<Options, BadUsage> {
    let mut options = config.options().map_err(|error| BadUsage(error.to_string()))?;
    let limit = OpenFilesLimit::current();
    let sockets = limit.for_sender(http::connections_max());
    if sockets < config.concurrency {
        tracing::warn!(
            open_files = limit.0,
            sockets,
            concurrency = config.concurrency,
            "this process may open too few files for its concurrency; raise the limit (`ulimit -n`, LimitNOFILE=) or \
             lower concurrency"
        );
    }
    options.sender.sockets_max = Some(sockets);
    Ok(options)
}

/// Returns the database of a configuration, without opening it.
pub(crate) fn database(config: &Config) -> Result<Database, BadUsage> {
    config.database().map_err(|error| BadUsage(error.to_string()))
}

/// Returns the URL of the database with its password masked, for messages.
pub(crate) fn masked_url(config: &Config) -> &str {
    config.setting("database_url").and_then(|effective| effective.value.as_deref()).unwrap_or_default()
}

/// Opens an instance of Posthaste. A signal cancels it, so that the process can be stopped while its database does not
/// respond.
pub(crate) async fn open_instance(
    signals: &mut ProcessSignals,
    options: Options,
    config: &Config,
) -> anyhow::Result<Posthaste> {
    let url = masked_url(config);
    tokio::select! {
        opened = Posthaste::open(options) => opened.with_context(|| format!("cannot open {url}")),
        signal = signals.next() => bail!("stopped by {signal} before {url} was open"),
    }
}

/// Opens the store of an existing database. Creates and migrates nothing.
pub(crate) async fn open_existing_store(config: &Config) -> anyhow::Result<OpenStore> {
    let url = masked_url(config);
    database(config)?.open_existing().await.with_context(|| format!("cannot open {url}"))
}
