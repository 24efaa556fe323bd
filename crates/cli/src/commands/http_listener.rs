//! The HTTP server of a process: API and dashboard, or only metrics and health probes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::commands::doctor::ProcessChecks;
use crate::service::phase_router::PhaseRouter;
use crate::service::readiness::ProcessReadiness;
use crate::service::shutdown::{ShutdownTrigger, shutdown_channel};
use crate::service::{dashboard, http};
use crate::timers;
use posthaste::domain::DestinationUrl;
use posthaste::engine::{Publisher, TokioClock};
use posthaste::sender::AddressGuard;
use posthaste::{OsRandom, Posthaste, RunningWorker};
use posthaste_api::{
    Access, Api, DestinationCheck, EnqueueSettings, Metrics, RandomBytes, RegistrySettings, Streams,
};
use posthaste_config::Config;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A bound address that accepts no connections yet.
pub(crate) struct HttpListener {
    pub(crate) address: SocketAddr,
    /// The metrics that this server exposes, to be installed as the observer of the worker.
    pub(crate) metrics: Arc<Metrics>,
    listener: TcpListener,
    access: Access,
}

/// The set of routes that a server serves.
pub(crate) enum Routes {
    /// The API accepts events only to destinations that the guard permits.
    ApiAndDashboard(AddressGuard),
    /// Metrics, liveness and readiness only.
    Probes,
}

/// A running HTTP server.
pub(crate) struct HttpServer {
    task: JoinHandle<()>,
    shutdown_trigger: ShutdownTrigger,
    shutdown_delay: Duration,
    streams: Streams,
    phases: PhaseRouter,
    metrics: Arc<Metrics>,
    access: Access,
}

impl HttpListener {
    /// Binds an address. A start binds before it creates anything, because a port in use is its most likely failure.
    pub(crate) async fn bind(
        listen: SocketAddr,
        config: &Config,
        metrics: Arc<Metrics>,
    ) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen).await.map_err(|error| {
            let advice = match error.kind() {
                io::ErrorKind::AddrInUse => {
                    "another process uses this port; stop it, or choose another address with --listen or --probe-listen"
                }
                io::ErrorKind::AddrNotAvailable => {
                    "this host has no such address; listen on one of its own, or on 0.0.0.0 for all of them"
                }
                io::ErrorKind::PermissionDenied => {
                    "this user may not bind the port; choose a port of 1024 or more"
                }
                _ => "choose another address with --listen or --probe-listen",
            };
            anyhow::Error::new(error).context(format!("cannot listen on {listen}: {advice}"))
        })?;
        let address = listener.local_addr()?;
        Ok(Self { address, metrics, listener, access: access(config, address) })
    }

    /// Starts to answer requests in a task. They are refused until [`HttpServer::open`].
    pub(crate) fn start(self, config: &Config) -> HttpServer {
        let phases = PhaseRouter::default();
        let (shutdown_trigger, shutdown) = shutdown_channel();
        let serve = http::serve(self.listener, phases.router(), shutdown, config.shutdown_seconds);
        HttpServer {
            task: tokio::spawn(serve),
            shutdown_trigger,
            shutdown_delay: config.shutdown_delay_seconds,
            streams: Streams::new(),
            phases,
            metrics: self.metrics,
            access: self.access,
        }
    }
}

impl HttpServer {
    /// Serves these routes from now on.
    pub(crate) fn open(
        &self,
        routes: &Routes,
        config: &Config,
        posthaste: &Posthaste,
        worker: Option<&RunningWorker>,
    ) {
        let health = worker.map(RunningWorker::health);
        if let Some(health) = &health {
            self.metrics.watch_worker(health.clone());
        }
        let readiness = Arc::new(ProcessReadiness {
            store: Arc::clone(posthaste.store()),
            health,
            poll_interval: config.poll_interval_ms,
        });
        let api = Api {
            store: posthaste.producer_store(),
            publisher: publisher(posthaste, worker),
            access: self.access.clone(),
            producer_excerpts: config.producer_excerpts,
            enqueue_settings: enqueue_settings(config),
            destination_check: match routes {
                Routes::ApiAndDashboard(guard) => Arc::new(GuardedDestinations(guard.clone())),
                Routes::Probes => Arc::new(()),
            },
            retry_policy: config.retry_policy.clone(),
            metrics: Arc::clone(&self.metrics),
            self_checks: Arc::new(ProcessChecks {
                config: Arc::new(config.clone()),
                worker_id: posthaste.settings().worker_id.to_string(),
                store: Arc::clone(posthaste.store()),
                readiness: Arc::clone(&readiness),
            }),
            readiness,
            streams: self.streams.clone(),
            warnings: config.warnings.clone(),
            registry: registry_settings(config, posthaste),
        };
        self.phases.open(match routes {
            Routes::ApiAndDashboard(_) => {
                api.router(dashboard::router(config.portal_frame_origins.as_deref().unwrap_or_default()))
            }
            Routes::Probes => api.probe_router(),
        });
    }

    /// Resolves if the server ends without [`stop`](Self::stop), which is a bug.
    pub(crate) async fn wait_for_end(&mut self) {
        if let Err(error) = (&mut self.task).await {
            tracing::error!(%error, "the HTTP server panicked");
        }
    }

    /// Refuses new requests, ends streams, and waits for requests in progress. The port stays open for the configured
    /// delay, so that load balancers see the refusals instead of a closed port.
    pub(crate) async fn stop(self) {
        self.phases.stop();
        self.streams.end();
        if !self.shutdown_delay.is_zero() {
            timers::sleep(self.shutdown_delay).await;
        }
        self.shutdown_trigger.fire();
        // If the task has already ended, `wait_for_end` has logged why.
        if !self.task.is_finished()
            && let Err(error) = self.task.await
        {
            tracing::error!(%error, "the HTTP server panicked");
        }
    }
}

/// Stops a server, if there is one.
pub(crate) async fn stop(server: Option<HttpServer>) {
    if let Some(server) = server {
        server.stop().await;
    }
}

/// Refuses destinations that the sender's address guard refuses.
struct GuardedDestinations(AddressGuard);

impl DestinationCheck for GuardedDestinations {
    fn check(&self, destination: &DestinationUrl) -> Result<(), String> {
        self.0.check_destination(destination).map_err(|forbidden| forbidden.to_string())
    }
}

/// Returns who may call the API: holders of an API key if the configuration has keys, otherwise every client on this
/// host.
fn access(config: &Config, listen: SocketAddr) -> Access {
    match &config.api_keys {
        None => Access::Loopback { listen },
        Some(keys) => Access::Keys(keys.clone()),
    }
}

/// Randomness for the secrets of endpoints.
struct InstanceRandom(Arc<OsRandom>);

impl RandomBytes for InstanceRandom {
    fn fill(&self, bytes: &mut [u8]) {
        self.0.fill(bytes);
    }
}

fn registry_settings(config: &Config, posthaste: &Posthaste) -> RegistrySettings {
    RegistrySettings {
        token_secret: config.jwt_secret.clone(),
        master_keys: Arc::clone(posthaste.master_keys()),
        operation_rate: config.operation_rate_per_second,
        ..RegistrySettings::new(Arc::new(InstanceRandom(Arc::clone(posthaste.random()))))
    }
}

fn enqueue_settings(config: &Config) -> EnqueueSettings {
    EnqueueSettings {
        payload_bytes_max: config.payload_bytes_max,
        default_max_attempts: config.retry_policy.max_attempts(),
        idempotency_retention: config.idempotency_hours,
    }
}

/// Returns the worker's publisher, which is notified of each settle, or without a worker one that polls the store.
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
