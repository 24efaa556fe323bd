//! `posthaste worker`: delivers events, without API and dashboard.
//!
//! It serves health probes and metrics at `probe_listen`, or else at `listen` if that is set. By default it does not
//! listen: many workers may share a host, and all would want the default port.

use std::process::ExitCode;
use std::sync::Arc;

use crate::service::shutdown::ProcessSignals;
use crate::service::traces::Traces;
use posthaste_api::Metrics;
use posthaste_config::{Config, Source};

use crate::commands::http_listener::{HttpListener, Routes, stop};
use crate::commands::{lifecycle, open};

pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = ProcessSignals::register()?;
    open::require_file(&config)?;
    let mut options = open::options(&config)?;
    let listener = bind_for_probes(&config).await;
    if let Some(listener) = &listener {
        options.observer = Arc::clone(&listener.metrics) as _;
        options.sender.own_listeners = vec![listener.address];
    }
    let traces = Traces::start(config.otlp_endpoint.as_ref(), &options.settings.worker_id)?;
    let worker_id = options.settings.worker_id.clone();
    let server = listener.map(|listener| {
        tracing::info!(address = %listener.address, %worker_id, "listening for probes and scrapes");
        listener.start(&config)
    });
    let posthaste = traces.instrument(open::wait_for_instance(&mut signals, options, &config).await?);
    let worker = posthaste.start_worker()?;
    if let Some(server) = &server {
        server.open(&Routes::Probes, &config, &posthaste, Some(&worker));
    }
    let database = open::database_name(&config);
    tracing::info!(%worker_id, database, concurrency = config.concurrency, "delivering");
    // Deliveries continue if the server for probes ends.
    let exit_code = lifecycle::wait_for_shutdown(&mut signals, std::future::pending()).await;
    let shutdown = async {
        tokio::join!(stop(server), lifecycle::drain_worker(Some(worker), config.shutdown_seconds));
        tokio::join!(traces.flush(), posthaste.close());
    };
    Ok(lifecycle::finish(signals, exit_code, shutdown).await)
}

/// Binds the configured address, if one is set. A failure is only a warning: another process of this host may use the
/// same configuration, and deliveries do not need the port.
async fn bind_for_probes(config: &Config) -> Option<HttpListener> {
    let address = config.probe_listen.or_else(|| sets_listen(config).then_some(config.listen))?;
    let bound = HttpListener::bind(address, config, Metrics::new()).await;
    bound
        .inspect_err(|error| {
            tracing::warn!(error = format!("{error:#}"), "this worker serves no probes and no metrics");
        })
        .ok()
}

fn sets_listen(config: &Config) -> bool {
    config.setting("listen").is_some_and(|effective| effective.source != Source::Default)
}
