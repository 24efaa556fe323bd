//! `posthaste worker`: delivers, and nothing else.

use std::process::ExitCode;

use posthaste::config::Config;
use posthaste::{Options, Posthaste};

use crate::commands::running;

pub(crate) async fn run(config: Config) -> anyhow::Result<ExitCode> {
    running::begin(&config);
    let posthaste = Posthaste::open(Options::configured(&config)?).await?;
    let worker = posthaste.start_worker()?;
    tracing::info!(worker_id = %posthaste.settings().worker_id, concurrency = config.concurrency, "delivering");
    running::until_stopped(async { running::drained(worker.drain(config.shutdown).await) }).await
}
