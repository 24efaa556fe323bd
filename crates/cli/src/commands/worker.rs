//! `posthaste worker`: delivers, and nothing else.
//!
//! Where it is told to listen, it answers probes and scrapes there. It does not listen unasked: many workers may share a
//! host, and with it the default port.

use std::process::ExitCode;
use std::sync::Arc;

use crate::service::stop::Signals;
use crate::service::traces::Traces;
use posthaste_config::{Config, Source};

use crate::commands::front::{Behind, Front};
use crate::commands::{opening, running};
use crate::terminal::BadUsage;

pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut options = opening::options(&config)?;
    let front = front(&config).await?;
    if let Some(front) = &front {
        options.observer = Arc::clone(&front.metrics) as _;
    }
    let traces = Traces::start(config.otlp_endpoint.as_ref(), &options.settings.worker_id)?;
    let posthaste = traces.follow(opening::open(&mut signals, options, &config).await?);
    let worker = posthaste.start_worker()?;

    let worker_id = &posthaste.settings().worker_id;
    let serving = front.map(|front| {
        tracing::info!(address = %front.address, %worker_id, "listening for probes and scrapes");
        front.serve(&Behind::Probes, &config, &posthaste, Some(&worker))
    });
    tracing::info!(%worker_id, concurrency = config.concurrency, "delivering");
    // Deliveries do not depend on probes.
    let exit_code = running::until_stopped(&mut signals, std::future::pending()).await;
    let finishing = async {
        let stop_serving = async {
            if let Some(serving) = serving {
                serving.stop().await;
            }
        };
        tokio::join!(stop_serving, running::drain(Some(worker), config.shutdown));
        tokio::join!(traces.flush(), posthaste.close());
    };
    Ok(running::finish(signals, exit_code, finishing).await)
}

/// Another process of this host may have the port, from the same file or environment: deliveries do not depend on it.
async fn front(config: &Config) -> anyhow::Result<Option<Front>> {
    if !is_told_to_listen(config) {
        return Ok(None);
    }
    match Front::open(config).await {
        Ok(front) => Ok(Some(front)),
        Err(error) if error.is::<BadUsage>() => Err(error),
        Err(error) => {
            tracing::warn!(error = format!("{error:#}"), "no probes and no metrics of this worker");
            Ok(None)
        }
    }
}

fn is_told_to_listen(config: &Config) -> bool {
    config.setting("listen").is_some_and(|effective| effective.source != Source::Default)
}
