//! What a process shows to the outside: a port, and behind it all of the API or only what watches the process.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::service::readiness::ProcessReadiness;
use crate::service::stop::{Stopper, stop};
use crate::service::{http, page};
use anyhow::Context as _;
use posthaste::engine::{Publisher, TokioClock};
use posthaste::{Posthaste, RunningWorker};
use posthaste_api::{Access, Api, EnqueueSettings, KeyRing, Metrics, Streams};
use posthaste_config::Config;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::terminal::BadUsage;

/// A port that is taken, and nobody answers on it yet.
pub(crate) struct Front {
    pub(crate) address: SocketAddr,
    /// Hears of what workers do.
    pub(crate) metrics: Arc<Metrics>,
    listener: TcpListener,
    access: Access,
}

/// What answers on it.
pub(crate) enum Behind {
    ApiAndPage,
    /// Metrics, liveness and readiness.
    Probes,
}

/// A front that answers.
pub(crate) struct Serving {
    task: JoinHandle<()>,
    stopper: Stopper,
    streams: Streams,
}

impl Front {
    /// Before anything is created: a port that is taken is the most likely thing to go wrong.
    pub(crate) async fn open(config: &Config) -> anyhow::Result<Self> {
        let wanted = config.listen;
        let listener = TcpListener::bind(wanted).await.with_context(|| {
            format!(
                "cannot listen on {wanted}; if another Posthaste runs there, stop it or choose another address with \
                 --listen"
            )
        })?;
        let address = listener.local_addr()?;
        Ok(Self { address, metrics: Metrics::new(), listener, access: access(config, address)? })
    }

    pub(crate) fn serve(
        self,
        behind: &Behind,
        config: &Config,
        posthaste: &Posthaste,
        worker: Option<&RunningWorker>,
    ) -> Serving {
        let streams = Streams::new();
        let health = worker.map(RunningWorker::health);
        if let Some(health) = &health {
            self.metrics.watch_worker(health.clone());
        }
        let api = Api {
            store: Arc::clone(posthaste.store()),
            publisher: publisher(posthaste, worker),
            access: self.access,
            enqueue_settings: enqueue_settings(config),
            retry_policy: config.retry_policy.clone(),
            metrics: self.metrics,
            readiness: Arc::new(ProcessReadiness {
                store: Arc::clone(posthaste.store()),
                health,
                poll_interval: config.poll_interval,
            }),
            streams: streams.clone(),
            warnings: config.warnings.clone(),
        };
        let router = match behind {
            Behind::ApiAndPage => api.router(page::router()),
            Behind::Probes => api.probe_router(),
        };
        let (stopper, stopping) = stop();
        let task = tokio::spawn(http::serve(self.listener, router, stopping, config.shutdown));
        Serving { task, stopper, streams }
    }
}

impl Serving {
    /// Returns if it ends although nobody stopped it, which is a bug of ours.
    pub(crate) async fn ended(&mut self) {
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the API ended badly");
        }
    }

    /// Takes no more requests, ends streams, and lets what is under way finish.
    pub(crate) async fn stop(self) {
        self.stopper.stop();
        self.streams.end();
        // What has ended already was told by whoever saw it.
        if !self.task.is_finished()
            && let Err(error) = self.task.await
        {
            tracing::error!(%error, "the API ended badly");
        }
    }
}

fn access(config: &Config, listen: SocketAddr) -> Result<Access, BadUsage> {
    match &config.api_keys {
        None => Ok(Access::Loopback { listen }),
        Some(keys) => {
            let refused = |error| BadUsage(format!("api_keys cannot be used: {error}"));
            KeyRing::parse(keys.reveal()).map(Access::Keys).map_err(refused)
        }
    }
}

fn enqueue_settings(config: &Config) -> EnqueueSettings {
    EnqueueSettings {
        payload_bytes_max: config.payload_bytes_max,
        default_max_attempts: config.retry_policy.max_attempts(),
        idempotency_retention: config.idempotency,
    }
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
