//! `posthaste dispatch --once`: one cycle, and its report as one line.

use std::process::ExitCode;

use posthaste::config::Config;
use posthaste::domain::{CycleReport, WorkerId};
use posthaste::service::traces::Traces;
use serde_json::json;

use crate::cli::DispatchArgs;
use crate::commands::running;
use crate::terminal;

pub(crate) async fn run(_args: &DispatchArgs, config: Config) -> anyhow::Result<ExitCode> {
    running::begin(&config);
    let options = running::options(&config)?;
    let traces = Traces::start(config.otlp_endpoint.as_ref(), &options.settings.worker_id)?;
    let posthaste = traces.follow(running::open(options, &config).await?);
    let dispatched = posthaste.dispatch_once().await;
    traces.flush().await;
    terminal::print(&line(&posthaste.settings().worker_id, &dispatched?))?;
    Ok(ExitCode::SUCCESS)
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
