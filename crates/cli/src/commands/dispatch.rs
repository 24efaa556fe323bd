//! `posthaste dispatch --once`: runs one cycle and prints its report as one line of JSON.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use crate::service::shutdown::{ProcessSignals, shutdown_channel};
use crate::service::traces::Traces;
use anyhow::bail;
use posthaste::domain::{CycleReport, WorkerId};
use posthaste::engine::DrainReport;
use posthaste::{DispatchError, Posthaste};
use posthaste_config::Config;
use serde_json::json;

use crate::cli::DispatchArgs;
use crate::commands::{lifecycle, open};
use crate::terminal::{self, BadUsage, pluralize};

/// Requires `--once`: without it, a user may expect a process that continues to deliver, as `posthaste worker` does.
pub(crate) fn ensure_once(args: &DispatchArgs) -> Result<(), BadUsage> {
    if args.once {
        return Ok(());
    }
    let advice = "dispatch runs one cycle only: write `posthaste dispatch --once`, or run `posthaste worker` to deliver \
                  continuously";
    Err(BadUsage(advice.to_owned()))
}

/// Runs the cycle. After the first signal, deliveries in flight may finish; a second signal ends the command at once.
pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = ProcessSignals::register()?;
    open::require_file(&config)?;
    let options = open::options(&config)?;
    let traces = Traces::start(config.otlp_endpoint.as_ref(), &options.settings.worker_id)?;
    let posthaste = traces.instrument(open::open_instance(&mut signals, options, &config).await?);
    let worker_id = posthaste.settings().worker_id.clone();

    let result = run_cycle(&posthaste, &mut signals, config.shutdown_seconds).await;
    let Some(result) = result else { return Ok(ExitCode::FAILURE) };
    let printed = result.map_err(anyhow::Error::from).and_then(|(report, drain_report)| {
        terminal::print(&report_line(&worker_id, &report))?;
        Ok(drain_report)
    });
    // A signal may skip this: the results are already stored and printed.
    tokio::select! {
        _ = async { tokio::join!(traces.flush(), posthaste.close()) } => {}
        _ = signals.next() => {}
    }
    match printed? {
        DrainReport { released: 0, unreleased: 0, .. } => Ok(ExitCode::SUCCESS),
        DrainReport { released, unreleased, .. } => bail!(
            "stopped before all deliveries in flight had finished: {} released and due at once, {unreleased} unreleased \
             and due when their leases expire",
            pluralize(released as u64, "event")
        ),
    }
}

/// Runs one cycle. Returns None if a second signal ended it.
async fn run_cycle(
    posthaste: &Posthaste,
    signals: &mut ProcessSignals,
    deadline: Duration,
) -> Option<Result<(CycleReport, DrainReport), DispatchError>> {
    let (shutdown_trigger, mut shutdown) = shutdown_channel();
    let mut cycle = pin!(posthaste.dispatch_once_until(shutdown.wait(), deadline));
    tokio::select! {
        biased;
        result = &mut cycle => Some(result),
        _ = lifecycle::wait_for_shutdown(signals, std::future::pending()) => {
            shutdown_trigger.fire();
            lifecycle::run_until_signal(signals, cycle).await
        }
    }
}

/// Returns the report as JSON, with the field names of the log line `dispatch cycle complete`.
fn report_line(worker_id: &WorkerId, report: &CycleReport) -> String {
    json!({
        "worker_id": worker_id.as_str(),
        "claimed_count": report.claimed_count,
        "delivered_count": report.delivered_count,
        "retried_count": report.retried_count,
        "failed_count": report.failed_count,
        "stale_write_count": report.stale_write_count,
        "http_2xx_count": report.http_2xx_count,
        "http_3xx_count": report.http_3xx_count,
        "http_4xx_count": report.http_4xx_count,
        "http_5xx_count": report.http_5xx_count,
        "network_error_count": report.network_error_count,
        "duration_ms": report.duration_ms,
    })
    .to_string()
}
