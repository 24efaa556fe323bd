//! `posthaste dispatch --once`: one cycle, and its report as one line.

use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use crate::service::stop::{Signals, stop};
use crate::service::traces::Traces;
use anyhow::bail;
use posthaste::domain::{CycleReport, WorkerId};
use posthaste::engine::DrainReport;
use posthaste::{DispatchError, Posthaste};
use posthaste_config::Config;
use serde_json::json;

use crate::cli::DispatchArgs;
use crate::commands::{opening, running};
use crate::terminal::{self, BadUsage, counted};

/// Whoever leaves it out may expect a process that goes on delivering, which is another command.
pub(crate) fn ensure_once(args: &DispatchArgs) -> Result<(), BadUsage> {
    if args.once {
        return Ok(());
    }
    let advice = "dispatch makes one cycle and says so: write `posthaste dispatch --once`, or run `posthaste worker` to \
                  go on delivering";
    Err(BadUsage(advice.to_owned()))
}

/// The first signal lets what is in flight finish, the second does not wait.
pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let options = opening::options(&config)?;
    let traces = Traces::start(config.otlp_endpoint.as_ref(), &options.settings.worker_id)?;
    let posthaste = traces.follow(opening::open(&mut signals, options, &config).await?);
    let worker_id = posthaste.settings().worker_id.clone();

    let ended = one_cycle(&posthaste, &mut signals, config.shutdown).await;
    let Some(ended) = ended else { return Ok(ExitCode::FAILURE) };
    let reported = ended.map_err(anyhow::Error::from).and_then(|(report, drained)| {
        terminal::print(&line(&worker_id, &report))?;
        Ok(drained)
    });
    // Whoever does not wait for this loses nothing of what was reported.
    tokio::select! {
        _ = async { tokio::join!(traces.flush(), posthaste.close()) } => {}
        _ = signals.next() => {}
    }
    match reported? {
        DrainReport { released: 0, unreleased: 0 } => Ok(ExitCode::SUCCESS),
        DrainReport { released, unreleased: left } => bail!(
            "stopped before everything in flight had finished: {} given back and due at once, {left} left until their \
             leases expire",
            counted(released as u64, "event")
        ),
    }
}

/// None when a second signal came.
async fn one_cycle(
    posthaste: &Posthaste,
    signals: &mut Signals,
    deadline: Duration,
) -> Option<Result<(CycleReport, DrainReport), DispatchError>> {
    let (stopper, mut told) = stop();
    let mut cycle = pin!(posthaste.dispatch_once_until(told.stopped(), deadline));
    tokio::select! {
        biased;
        ended = &mut cycle => Some(ended),
        _ = running::until_stopped(signals, std::future::pending()) => {
            stopper.stop();
            running::unless_hurried(signals, cycle).await
        }
    }
}

/// Named as the log names them.
fn line(worker_id: &WorkerId, report: &CycleReport) -> String {
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
