//! `posthaste serve`: API, dashboard and worker in one process.

mod banner;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::service::shutdown::ProcessSignals;
use crate::service::traces::Traces;
use posthaste::sender::AddressGuard;
use posthaste_api::Metrics;
use posthaste_config::Config;

use crate::cli::ServeArgs;
use crate::commands::http_listener::{HttpListener, Routes, stop};
use crate::commands::{lifecycle, open};
use crate::terminal;
use banner::Banner;

pub(crate) async fn run(args: &ServeArgs, file: Option<&Path>, config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = ProcessSignals::register()?;
    let mut options = open::options(&config)?;
    let metrics = Metrics::new();
    let listener = HttpListener::bind(config.listen, &config, Arc::clone(&metrics)).await?;
    let probe_listener = match config.probe_listen {
        Some(address) => Some(HttpListener::bind(address, &config, Arc::clone(&metrics)).await?),
        None => None,
    };
    options.observer = metrics;
    options.sender.own_listeners =
        [&listener].into_iter().chain(&probe_listener).map(|l| l.address).collect();
    let routes = Routes::ApiAndDashboard(AddressGuard::new(&options.sender));
    // Spans are of attempts, which only a worker makes.
    let collector = config.otlp_endpoint.as_ref().filter(|_| !args.no_worker);
    let traces = Traces::start(collector, &options.settings.worker_id)?;
    let address = listener.address;
    let mut server = listener.start(&config);
    let probe_server = probe_listener.map(|listener| listener.start(&config));
    let posthaste = traces.instrument(open::wait_for_instance(&mut signals, options, &config).await?);
    let worker = if args.no_worker { None } else { Some(posthaste.start_worker()?) };
    server.open(&routes, &config, &posthaste, worker.as_ref());
    if let Some(server) = &probe_server {
        server.open(&Routes::Probes, &config, &posthaste, worker.as_ref());
    }
    let database = open::database_name(&config);
    tracing::info!(%address, database, worker_id = %posthaste.settings().worker_id, worker = worker.is_some(), "listening");
    // A closed standard output must not end the service.
    let _ = terminal::print(&Banner::new(args, file, &config, address).render(&config));
    let exit_code = lifecycle::wait_for_shutdown(&mut signals, server.wait_for_end()).await;
    let shutdown = async {
        tokio::join!(
            server.stop(),
            stop(probe_server),
            lifecycle::drain_worker(worker, config.shutdown_seconds)
        );
        tokio::join!(traces.flush(), posthaste.close());
    };
    Ok(lifecycle::finish(signals, exit_code, shutdown).await)
}
