//! `posthaste serve`: API, page and worker in one process.

mod banner;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::service::stop::Signals;
use crate::service::traces::Traces;
use posthaste_config::Config;

use crate::cli::ServeArgs;
use crate::commands::front::{Behind, Front};
use crate::commands::{opening, running};
use crate::terminal;
use banner::Banner;

pub(crate) async fn run(args: &ServeArgs, file: Option<&Path>, config: Config) -> anyhow::Result<ExitCode> {
    let mut signals = Signals::listen()?;
    let mut options = opening::options(&config)?;
    let front = Front::open(&config).await?;
    options.observer = Arc::clone(&front.metrics) as _;
    // Only a worker makes attempts.
    let collector = config.otlp_endpoint.as_ref().filter(|_| !args.no_worker);
    let traces = Traces::start(collector, &options.settings.worker_id)?;
    let posthaste = traces.follow(opening::open(&mut signals, options, &config).await?);
    let worker = if args.no_worker { None } else { Some(posthaste.start_worker()?) };

    let address = front.address;
    let mut serving = front.serve(&Behind::ApiAndPage, &config, &posthaste, worker.as_ref());
    tracing::info!(%address, worker_id = %posthaste.settings().worker_id, worker = worker.is_some(), "listening");
    // For people; nobody may be reading.
    let _ = terminal::print(&Banner::of(args, file, &config, address).shown(&config));
    let exit_code = running::until_stopped(&mut signals, serving.ended()).await;
    let finishing = async {
        tokio::join!(serving.stop(), running::drain(worker, config.shutdown));
        tokio::join!(traces.flush(), posthaste.close());
    };
    Ok(running::finish(signals, exit_code, finishing).await)
}
