//! `posthaste worker`: delivers, and nothing else.
//!
//! Where it is told to listen, it answers probes and scrapes there. It does not listen unasked: many workers may share a
//! host, and with it the default port.

use std::process::ExitCode;
use std::sync::Arc;

use posthaste::config::{Config, Source};
use posthaste::service::stop::Signals;
use posthaste::service::traces::Traces;

use crate::commands::front::{Behind, Front};
use crate::commands::running;

pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let signals = Signals::listen()?;
    running::begin(&config);
    let mut options = running::options(&config)?;
    let front = if is_told_to_listen(&config) { Some(Front::open(&config).await?) } else { None };
    if let Some(front) = &front {
        options.observer = Arc::clone(&front.metrics) as _;
    }
    let traces = Traces::start(config.otlp_endpoint.as_ref(), &options.settings.worker_id)?;
    let posthaste = traces.follow(running::open(options, &config).await?);
    let worker = posthaste.start_worker()?;

    let worker_id = &posthaste.settings().worker_id;
    let serving = front.map(|front| {
        tracing::info!(address = %front.address, %worker_id, "listening for probes and scrapes");
        front.serve(&Behind::Probes, &config, &posthaste, Some(&worker))
    });
    tracing::info!(%worker_id, concurrency = config.concurrency, "delivering");
    running::until_stopped(signals, async {
        running::drain(Some(worker), config.shutdown).await;
        if let Some(serving) = serving {
            serving.stop().await;
        }
        traces.flush().await;
    })
    .await
}

fn is_told_to_listen(config: &Config) -> bool {
    config.setting("listen").is_some_and(|effective| effective.source != Source::Default)
}
