//! Prometheus metrics: counters of this process, gauges of its workers and of its use of the host, and gauges of the outbox.
//!
//! Metric names are the documented dotted names with underscores. Counters end in `_total`, as the format requires. Times
//! are in seconds. The dead-letter rate is `rate(webhook_dead_letters_total)` divided by the rate of all events that reached
//! a terminal state: `webhook_deliveries_total{outcome!="retried"}` plus the abandoned and
//! the expired events.

mod applications;
mod attempts;
mod process;
mod requests;
mod text;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use posthaste_domain::{DisableReason, FailureKind};
use posthaste_engine::{AttemptEvent, Clock, ClockSkew, LocalShortage, Observer, WorkerHealth, within};
use posthaste_store::{Overview, Store};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;

use attempts::AttemptMetrics;
use process::ProcessCollector;
use requests::RequestMetrics;
pub(crate) use requests::count_requests;

/// How long a scrape waits for the store's counts.
const OVERVIEW_TIMEOUT: Duration = Duration::from_secs(2);

/// The metrics of this process. Also the [`Observer`] of its workers.
pub struct Metrics {
    registry: Registry,
    attempts: AttemptMetrics,
    requests: RequestMetrics,
    in_flight: Gauge,
    circuits_open: Gauge,
    clock_skew: Gauge<f64, AtomicU64>,
    unwritten_results: Gauge,
    workers: Mutex<Vec<WorkerHealth>>,
}

impl Metrics {
    /// Creates all metrics. The `Arc` is shared between the workers and the API.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let (in_flight, circuits_open, unwritten_results) =
            (Gauge::default(), Gauge::default(), Gauge::default());
        registry.register(
            "webhook_unwritten_results",
            "Results of requests that the store has refused or not answered in time; this process keeps them",
            unwritten_results.clone(),
        );
        registry.register(
            "webhook_in_flight",
            "Requests being sent or settled by this process",
            in_flight.clone(),
        );
        registry.register(
            "webhook_circuit_open",
            "Destinations whose circuit this process holds open or half open",
            circuits_open.clone(),
        );
        let clock_skew = Gauge::<f64, AtomicU64>::default();
        registry.register(
            "webhook_clock_skew_seconds",
            "Seconds that this host's clock is ahead of the store's, negative if behind",
            clock_skew.clone(),
        );
        let build = Family::<[(&str, &str); 1], Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("posthaste_build_info", "Always 1; the label holds the running version", build);
        registry.register_collector(Box::new(ProcessCollector::new()));
        Arc::new(Self {
            attempts: AttemptMetrics::register(&mut registry),
            requests: RequestMetrics::register(&mut registry),
            registry,
            in_flight,
            circuits_open,
            clock_skew,
            unwritten_results,
            workers: Mutex::default(),
        })
    }

    /// Counts a request that repeated an idempotency key with another body.
    pub(crate) fn count_idempotency_mismatch(&self) {
        self.requests.idempotency_mismatches.inc();
    }

    /// Adds a worker of this process to the gauges.
    pub fn watch_worker(&self, health: WorkerHealth) {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner).push(health);
    }

    /// Sets the gauges from the current health of the workers.
    fn refresh_gauges(&self) {
        let workers = self.workers.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = |of: fn(&WorkerHealth) -> usize| {
            i64::try_from(workers.iter().map(of).sum::<usize>()).unwrap_or(i64::MAX)
        };
        self.in_flight.set(sum(WorkerHealth::in_flight));
        self.circuits_open.set(sum(WorkerHealth::circuits_open));
        let skews = workers.iter().filter_map(WorkerHealth::clock_skew);
        self.clock_skew.set(skews.max_by_key(|skew| skew.difference).map_or(0.0, ClockSkew::as_secs_f64));
        self.unwritten_results.set(sum(WorkerHealth::unwritten_results));
    }
}

/// Counts what the workers report.
impl Observer for Metrics {
    fn on_attempt(&self, attempt: &AttemptEvent<'_>) {
        self.attempts.on_attempt(attempt);
    }

    fn on_lease_lost(&self) {
        self.attempts.leases_lost.inc();
    }

    fn on_abandoned(&self, events: usize) {
        self.attempts.on_dead_lettered(FailureKind::Abandoned, events);
    }

    fn on_expired(&self, events: usize) {
        self.attempts.on_dead_lettered(FailureKind::Expired, events);
    }

    fn on_endpoint_disabled(&self, reason: DisableReason) {
        self.attempts.on_endpoint_disabled(reason);
    }

    fn on_local_shortage(&self, shortage: LocalShortage) {
        self.attempts.on_local_shortage(shortage);
    }
}

/// What a scrape reports about the store.
#[derive(Clone)]
pub(crate) struct StoreGauges {
    overview: Overview,
    /// Size of the store's write-ahead log on this host, if it has one.
    wal_bytes: Option<u64>,
}

impl StoreGauges {
    /// Reads the store's counts and the size of its write-ahead log. Returns `None` if the store fails to count.
    async fn read(store: &dyn Store, clock: &dyn Clock) -> Option<Self> {
        let overview = match within(clock, OVERVIEW_TIMEOUT, store.overview()).await {
            Some(Ok(overview)) => overview,
            Some(Err(error)) => {
                tracing::warn!(code = error.code(), %error, "metrics omit the outbox: the store failed to count it");
                return None;
            }
            None => {
                tracing::warn!(
                    "metrics omit the outbox: the store did not count it within {OVERVIEW_TIMEOUT:?}"
                );
                return None;
            }
        };
        Some(Self { overview, wal_bytes: store.wal_bytes() })
    }
}

/// Returns the store's state as gauges.
fn store_gauges(StoreGauges { overview, wal_bytes }: &StoreGauges) -> Registry {
    let mut registry = Registry::default();
    let mut count =
        |name: &str, help: &str, value: u64| registry.register(name, help, ConstGauge::new(value));
    count("webhook_retry_queue_depth", "Pending events with at least one attempt", overview.retrying);
    count("webhook_pending", "Events neither delivered nor failed", overview.pending);
    count("webhook_pending_ready", "Pending events that are due and not being sent", overview.pending_ready);
    count("webhook_failed", "Events in the dead-letter queue", overview.failed);
    count("webhook_delivered", "Delivered events that retention has not yet removed", overview.delivered);
    count(
        "webhook_held_events",
        "Pending events whose destination is paused, disabled or has an open circuit, counted up to 10000",
        overview.held.count,
    );
    if let Some(wal_bytes) = *wal_bytes {
        count("webhook_sqlite_wal_bytes", "Size of the write-ahead log of the SQLite file", wal_bytes);
    }
    let oldest_held = overview.held.oldest_age.unwrap_or_default().as_secs_f64();
    registry.register(
        "webhook_oldest_held_age",
        "Seconds since the oldest held event that was counted was created, 0 if no event is held",
        ConstGauge::new(oldest_held),
    );
    let oldest = overview.oldest_pending_age.unwrap_or_default().as_secs_f64();
    registry.register(
        "webhook_oldest_pending_age",
        "Seconds since the oldest pending event was created, 0 if no event is pending",
        ConstGauge::new(oldest),
    );
    registry
}

/// Scrape metrics
///
/// Returns the metrics in the OpenMetrics text format if the client accepts it, else in the Prometheus text format. Counts
/// from the store are at most a second old, and are omitted while the store is unavailable.
#[utoipa::path(
    get, path = "/metrics", tag = "Service", operation_id = "getMetrics",
    responses((status = 200, description = "The metrics", content(
        (String = "text/plain",
            example = "# HELP webhook_in_flight Requests being sent or settled by this process.\n# TYPE webhook_in_flight gauge\nwebhook_in_flight 3\n"),
        (String = "application/openmetrics-text",
            example = "# HELP webhook_in_flight Requests being sent or settled by this process.\n# TYPE webhook_in_flight gauge\nwebhook_in_flight 3\n# EOF\n"),
    ))),
)]
pub(crate) async fn scrape(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    headers: HeaderMap,
) -> Response {
    let clock = &*state.clock;
    let read = StoreGauges::read(&*state.store, clock);
    let gauges = state.store_gauges_cache.get_or_compute(clock, read).await;
    state.metrics.refresh_gauges();
    let outbox = gauges.as_ref().map(store_gauges);
    let accepts_openmetrics = headers.get_all(ACCEPT).iter().any(|accepted| {
        accepted.to_str().is_ok_and(|accepted| accepted.contains("application/openmetrics-text"))
    });
    let (content_type, text) = text::render(&state.metrics.registry, outbox.as_ref(), accepts_openmetrics);
    ([(CONTENT_TYPE, HeaderValue::from_static(content_type))], text).into_response()
}
