//! Opens the database of a configuration, with errors that name it.

use std::time::Duration;

use crate::service::http;
use crate::service::open_files::OpenFilesLimit;
use crate::service::shutdown::ProcessSignals;
use anyhow::{Context as _, bail};
use posthaste::{Database, OpenError, OpenStore, Options, Posthaste, SchemaName};
use posthaste_config::{Config, DatabaseUrl};

use crate::terminal::BadUsage;
use crate::timers;

/// Delay before the first repeated attempt to open the database. Each further delay is twice as long.
const RETRY_DELAY_MIN: Duration = Duration::from_millis(500);
/// Longest delay between two attempts to open the database.
const RETRY_DELAY_MAX: Duration = Duration::from_secs(10);

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

/// Returns the masked URL of the database, with its schema if that is not the default one, for messages.
pub(crate) fn database_name(config: &Config) -> String {
    let (url, schema) = (masked_url(config), &config.database_schema);
    if *schema == SchemaName::default() { url.to_owned() } else { format!("{url} (schema {schema})") }
}

/// Returns an error if the database is a SQLite file that does not exist. Only `serve` and `migrate` create one: anywhere
/// else, a missing file is a mistyped path.
pub(crate) fn require_file(config: &Config) -> anyhow::Result<()> {
    match &config.database_url {
        DatabaseUrl::Sqlite(path) if !path.exists() => bail!(
            "{} does not exist; check database_url, or create it with `posthaste serve` or `posthaste migrate`",
            path.display()
        ),
        _ => Ok(()),
    }
}

/// Opens an instance of Posthaste. A signal cancels it, so that the process can be stopped while its database does not
/// respond.
pub(crate) async fn open_instance(
    signals: &mut ProcessSignals,
    options: Options,
    config: &Config,
) -> anyhow::Result<Posthaste> {
    let url = database_name(config);
    tokio::select! {
        opened = Posthaste::open(options) => opened.with_context(|| format!("cannot open {url}")),
        signal = signals.next() => bail!("stopped by {signal} before {url} was open"),
    }
}

/// Opens an instance of Posthaste, and waits for a database that cannot be reached. Returns an error that does not pass by
/// itself, such as a wrong password or a newer schema.
pub(crate) async fn wait_for_instance(
    signals: &mut ProcessSignals,
    options: Options,
    config: &Config,
) -> anyhow::Result<Posthaste> {
    let url = database_name(config);
    let mut delay = RETRY_DELAY_MIN;
    loop {
        match open_instance(signals, options.clone(), config).await {
            Err(error) if error.downcast_ref().is_some_and(OpenError::is_transient) => {
                tracing::warn!(error = format!("{error:#}"), retry_in = ?delay, "waiting for the database");
            }
            opened => return opened,
        }
        tokio::select! {
            () = timers::sleep(delay) => delay = (delay * 2).min(RETRY_DELAY_MAX),
            signal = signals.next() => bail!("stopped by {signal} before {url} was open"),
        }
    }
}

/// Opens the store of an existing database. Creates and migrates nothing.
pub(crate) async fn open_existing_store(config: &Config) -> anyhow::Result<OpenStore> {
    let url = database_name(config);
    database(config)?.open_existing().await.with_context(|| format!("cannot open {url}"))
}
