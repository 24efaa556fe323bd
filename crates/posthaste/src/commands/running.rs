//! A process that runs until it is told to stop.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};
use posthaste::config::Config;
use posthaste::engine::Drained;
use posthaste::service::logs;
use posthaste::service::stop::Signals;
use posthaste::{Database, Options, Posthaste, RunningWorker};

use crate::terminal::BadUsage;

/// The log is set up, and what the configuration wants said at every start is said.
pub(crate) fn begin(config: &Config) {
    logs::init(&config.log, config.log_format);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
}

/// What the configuration says, before anything is opened: what is wrong with it is bad usage.
pub(crate) fn options(config: &Config) -> Result<Options, BadUsage> {
    Options::configured(config).map_err(|error| BadUsage(error.to_string()))
}

pub(crate) fn database(config: &Config) -> Result<Database, BadUsage> {
    Database::configured(config).map_err(|error| BadUsage(error.to_string()))
}

/// Where the database is, as it may be shown.
pub(crate) fn place(config: &Config) -> &str {
    config.setting("database_url").and_then(|effective| effective.value.as_deref()).unwrap_or_default()
}

/// Opens the store and what else an instance needs, or says which could not be.
pub(crate) async fn open(options: Options, config: &Config) -> anyhow::Result<Posthaste> {
    Posthaste::open(options).await.with_context(|| format!("cannot start on {}", place(config)))
}

/// As [`open`], unless a signal comes first: a server that does not answer must not keep us from stopping.
pub(crate) async fn open_unless_stopped(
    signals: &mut Signals,
    options: Options,
    config: &Config,
) -> anyhow::Result<Posthaste> {
    tokio::select! {
        opened = open(options, config) => opened,
        signal = signals.next() => bail!("stopped by {signal} before {} could be opened", place(config)),
    }
}

/// Waits until a signal comes, or until a part of this process has ended by itself: half a process would not be
/// restarted by anybody.
pub(crate) async fn until_stopped(signals: &mut Signals, ended: impl Future<Output = ()>) -> ExitCode {
    tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "stopping: what is in flight may finish; a second signal stops at once");
            ExitCode::SUCCESS
        }
        () = ended => {
            tracing::error!("stopping: a part of this process has ended by itself; what is in flight may finish");
            ExitCode::FAILURE
        }
    }
}

/// Waits for `finishing`, and no longer when a further signal comes.
pub(crate) async fn finish(
    mut signals: Signals,
    exit_code: ExitCode,
    finishing: impl Future<Output = ()>,
) -> ExitCode {
    tokio::select! {
        () = finishing => {
            tracing::info!("stopped");
            exit_code
        }
        signal = signals.next() => {
            tracing::warn!(signal, "stopped at once: what was in flight is delivered again when its leases expire");
            ExitCode::FAILURE
        }
    }
}

/// Lets what is in flight finish, and says what did not.
pub(crate) async fn drain(worker: Option<RunningWorker>, deadline: Duration) {
    let Some(worker) = worker else { return };
    let Drained { released, left } = worker.drain(deadline).await;
    if released + left == 0 {
        tracing::info!("everything in flight was finished");
    } else {
        tracing::warn!(
            released,
            left,
            "not everything in flight was finished: what was released is due at once, what is left when its leases expire"
        );
    }
}
