//! `posthaste worker`: delivers, and nothing else.

use std::process::ExitCode;

use posthaste::Posthaste;
use posthaste::config::Config;
use posthaste::service::traces::Traces;

use crate::commands::running;

pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    running::begin(&config);
    let options = running::options(&config)?;
    let traces = Traces::start(config.otlp_endpoint.as_ref(), &options.settings.worker_id)?;
    let posthaste = traces.follow(Posthaste::open(options).await?);
    let worker = posthaste.start_worker()?;
    tracing::info!(worker_id = %posthaste.settings().worker_id, concurrency = config.concurrency, "delivering");
    running::until_stopped(async {
        running::drained(worker.drain(config.shutdown).await);
        traces.flush().await;
    })
    .await
}
