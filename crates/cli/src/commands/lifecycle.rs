//! The lifecycle of a process that delivers: its log, its signals, and its shutdown.
//!
//! The first signal starts the shutdown, in which deliveries in flight may finish. A second signal ends it at once.

use std::process::ExitCode;
use std::time::Duration;

use crate::service::logs;
use crate::service::shutdown::ProcessSignals;
use posthaste::RunningWorker;
use posthaste::engine::DrainReport;
use posthaste_config::Config;

/// Sets up the log and writes the warnings of the configuration and of the database's connection to it.
pub(crate) fn init_log(config: &Config, color: bool) {
    logs::init(&config.log, logs::choose_format(config.log_format), color);
    for warning in &config.warnings {
        tracing::warn!("{warning}");
    }
    if let Some(exposure) = config.database_url.exposure() {
        tracing::warn!("{exposure}");
    }
}

/// Waits for a signal, or for the unexpected end of a part of this process, and returns the exit code. The whole
/// process must then end, because a supervisor restarts only a process that has ended.
pub(crate) async fn wait_for_shutdown(
    signals: &mut ProcessSignals,
    part_ended: impl Future<Output = ()>,
) -> ExitCode {
    tokio::select! {
        signal = signals.next() => {
            tracing::info!(signal, "stopping: deliveries in flight may finish; a second signal stops at once");
            ExitCode::SUCCESS
        }
        () = part_ended => {
            tracing::error!(
                "stopping: a part of this process has ended unexpectedly; deliveries in flight may finish"
            );
            ExitCode::FAILURE
        }
    }
}

/// Runs the shutdown and returns `exit_code`. A second signal ends the shutdown with a failure.
pub(crate) async fn finish(
    mut signals: ProcessSignals,
    exit_code: ExitCode,
    shutdown: impl Future<Output = ()>,
) -> ExitCode {
    match run_until_signal(&mut signals, shutdown).await {
        Some(()) => {
            tracing::info!("stopped");
            exit_code
        }
        None => ExitCode::FAILURE,
    }
}

/// Awaits the shutdown. Returns None if a second signal comes first.
pub(crate) async fn run_until_signal<T>(
    signals: &mut ProcessSignals,
    shutdown: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        finished = shutdown => Some(finished),
        signal = signals.next() => {
            tracing::warn!(signal, "stopped at once: events in flight are delivered again when their leases expire");
            None
        }
    }
}

/// Waits until the deliveries in flight have finished or the deadline has passed, and logs how many did not finish.
pub(crate) async fn drain_worker(worker: Option<RunningWorker>, deadline: Duration) {
    let Some(worker) = worker else { return };
    let DrainReport { released, unreleased, .. } = worker.drain(deadline).await;
    if released + unreleased == 0 {
        tracing::info!("all deliveries in flight finished");
    } else {
        tracing::warn!(
            released,
            unreleased,
            "some deliveries in flight did not finish: released events are due at once, unreleased events when their \
             leases expire"
        );
    }
}
