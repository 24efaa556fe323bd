//! A process that runs until it is told to stop.

use std::process::ExitCode;
use std::time::Duration;

use crate::service::logs;
use crate::service::stop::Signals;
use posthaste::RunningWorker;
use posthaste::engine::DrainReport;
use posthaste_config::Config;

/// The log is set up, and what the configuration wants said at every start is said.
pub(crate) fn begin(config: &Config, colours: bool) {
    logs::init(&config.log, logs::format(config.log_format), colours);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
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
    match unless_hurried(&mut signals, finishing).await {
        Some(()) => {
            tracing::info!("stopped");
            exit_code
        }
        None => ExitCode::FAILURE,
    }
}

/// What `finishing` gives; none when a further signal comes first, and then there is nothing more to wait for.
pub(crate) async fn unless_hurried<T>(
    signals: &mut Signals,
    finishing: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        finished = finishing => Some(finished),
        signal = signals.next() => {
            tracing::warn!(signal, "stopped at once: what was in flight is delivered again when its leases expire");
            None
        }
    }
}

/// Lets what is in flight finish, and says what did not.
pub(crate) async fn drain(worker: Option<RunningWorker>, deadline: Duration) {
    let Some(worker) = worker else { return };
    let DrainReport { released, unreleased: left } = worker.drain(deadline).await;
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
