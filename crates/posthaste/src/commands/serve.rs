//! `posthaste serve`: API, page and worker in one process.

mod banner;

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use axum::Router;
use posthaste::config::Config;
use posthaste::engine::{Enqueuer, Publisher, TokioClock, enqueuer};
use posthaste::service::readiness::ProcessReadiness;
use posthaste::service::stop::stop;
use posthaste::service::traces::Traces;
use posthaste::service::{http, page};
use posthaste::{Posthaste, RunningWorker};
use posthaste_api::{Access, Api, Intake, KeyRing, Metrics, Streams};
use tokio::net::TcpListener;

use crate::cli::ServeArgs;
use crate::commands::running;
use crate::terminal::{self, BadUsage};

pub(crate) async fn run(args: &ServeArgs, config: Config) -> anyhow::Result<ExitCode> {
    running::begin(&config);
    let access = access(&config)?;
    let metrics = Metrics::new();
    let mut options = running::options(&config)?;
    options.observer = Arc::clone(&metrics) as _;
    // Before anything is created: a port that is taken is the most likely thing to go wrong.
    let listener = listen(&config).await?;
    // Only a worker makes attempts.
    let collector = config.otlp_endpoint.as_ref().filter(|_| !args.no_worker);
    let traces = Traces::start(collector, &options.settings.worker_id)?;
    let posthaste = traces.follow(Posthaste::open(options).await?);
    let worker = if args.no_worker { None } else { Some(posthaste.start_worker()?) };
    if let Some(worker) = &worker {
        metrics.watch(worker.pulse());
    }

    let streams = Streams::new();
    let api = Api {
        store: Arc::clone(posthaste.store()),
        enqueuer: enqueueing(&posthaste),
        publisher: publisher(&posthaste, worker.as_ref()),
        access,
        intake: intake(&config),
        metrics,
        readiness: Arc::new(ProcessReadiness {
            store: Arc::clone(posthaste.store()),
            pulse: worker.as_ref().map(RunningWorker::pulse),
            poll_interval: config.poll_interval,
        }),
        streams: streams.clone(),
    };
    let router: Router = api.router().merge(page::router());
    let (stopper, stopping) = stop();
    let address = listener.local_addr()?;
    let serving = tokio::spawn(http::serve(listener, router, stopping, config.shutdown));
    tracing::info!(%address, worker_id = %posthaste.settings().worker_id, worker = worker.is_some(), "listening");
    terminal::print(&banner::banner(&config, address))?;

    running::until_stopped(async {
        stopper.stop();
        streams.end();
        let finished = tokio::join!(serving, async {
            if let Some(worker) = worker {
                running::drained(worker.drain(config.shutdown).await);
            }
        });
        if let Err(error) = finished.0 {
            tracing::error!(%error, "the API ended badly");
        }
        traces.flush().await;
    })
    .await
}

fn access(config: &Config) -> Result<Access, BadUsage> {
    match &config.api_keys {
        None => Ok(Access::Loopback { listen: config.listen }),
        Some(keys) => {
            let refused = |error| BadUsage(format!("api_keys cannot be used: {error}"));
            KeyRing::parse(keys.reveal()).map(Access::Keys).map_err(refused)
        }
    }
}

async fn listen(config: &Config) -> anyhow::Result<TcpListener> {
    TcpListener::bind(config.listen).await.with_context(|| {
        let address = config.listen;
        format!("cannot listen on {address}; if another Posthaste runs there, stop it or choose another address with --listen")
    })
}

fn intake(config: &Config) -> Intake {
    Intake {
        payload_bytes_max: config.payload_bytes_max,
        max_attempts: config.retry_policy.max_attempts(),
        idempotency_keep: config.idempotency,
    }
}

fn enqueueing(posthaste: &Posthaste) -> Enqueuer {
    let (enqueuer, run) = enqueuer(Arc::clone(posthaste.store()));
    tokio::spawn(run);
    enqueuer
}

/// The worker's, which hears of settles at once, or one that polls.
fn publisher(posthaste: &Posthaste, worker: Option<&RunningWorker>) -> Publisher {
    match worker {
        Some(worker) => worker.publisher().clone(),
        None => {
            let publisher = Publisher::new(Arc::clone(posthaste.store()));
            let poll_interval = posthaste.settings().poll_interval;
            tokio::spawn(publisher.clone().run(Arc::new(TokioClock::start()), poll_interval));
            publisher
        }
    }
}
