//! What a process has done, how it is doing, and what is in its outbox, for Prometheus.
//!
//! Names are the dotted names of the contract with underscores. Counters end in `_total`, as the format wants it; times are
//! seconds. A dead-letter rate is `rate(webhook_dead_letters_total)` over the rate of all events that came to an end:
//! `webhook_deliveries_total{outcome!="retried"}` and the abandoned ones.

mod attempts;
mod requests;
mod text;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::header::{ACCEPT, CONTENT_TYPE};
use http::{HeaderMap, HeaderValue};
use posthaste_engine::{AttemptSeen, Observer, Pulse, within};
use posthaste_store::Overview;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::registry::Registry;

use crate::access::{Allowed, Reading};
use crate::api::Service;

use attempts::Attempts;
use requests::Requests;
pub(crate) use requests::counted;

/// How long a scrape waits for the store's counts.
const COUNTED_WITHIN: Duration = Duration::from_secs(2);

/// The metrics of a process. It is the [`Observer`] of the process's workers.
pub struct Metrics {
    registry: Registry,
    attempts: Attempts,
    requests: Requests,
    in_flight: Gauge,
    circuits_open: Gauge,
    pulses: Mutex<Vec<Pulse>>,
}

impl Metrics {
    /// Shared from the start: with the workers, and with the API.
    pub fn new() -> Arc<Self> {
        let mut registry = Registry::default();
        let (in_flight, circuits_open) = (Gauge::default(), Gauge::default());
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
        let build = Family::<[(&str, &str); 1], Gauge>::default();
        build.get_or_create(&[("version", env!("CARGO_PKG_VERSION"))]).set(1);
        registry.register("posthaste_build_info", "Always 1; the version that runs is its label", build);
        Arc::new(Self {
            attempts: Attempts::register(&mut registry),
            requests: Requests::register(&mut registry),
            registry,
            in_flight,
            circuits_open,
            pulses: Mutex::default(),
        })
    }

    /// Shows how a worker of this process is doing.
    pub fn watch(&self, pulse: Pulse) {
        self.pulses.lock().unwrap_or_else(PoisonError::into_inner).push(pulse);
    }

    fn feel_pulses(&self) {
        let pulses = self.pulses.lock().unwrap_or_else(PoisonError::into_inner);
        let sum =
            |of: fn(&Pulse) -> usize| i64::try_from(pulses.iter().map(of).sum::<usize>()).unwrap_or(i64::MAX);
        self.in_flight.set(sum(Pulse::in_flight));
        self.circuits_open.set(sum(Pulse::circuits_open));
    }
}

/// Workers tell of what they do.
impl Observer for Metrics {
    fn attempted(&self, attempt: &AttemptSeen<'_>) {
        self.attempts.attempted(attempt);
    }

    fn lease_lost(&self) {
        self.attempts.leases_lost.inc();
    }

    fn abandoned(&self, events: usize) {
        self.attempts.abandoned(events);
    }
}

/// The outbox as gauges.
fn gauges(overview: &Overview) -> Registry {
    let mut registry = Registry::default();
    let mut count =
        |name: &str, help: &str, value: u64| registry.register(name, help, ConstGauge::new(value));
    count("webhook_retry_queue_depth", "Pending events with at least one attempt made", overview.retrying);
    count("webhook_pending", "Events neither delivered nor failed", overview.pending);
    count("webhook_pending_ready", "Pending events that are due and not being sent", overview.pending_ready);
    count("webhook_failed", "Events in the dead-letter queue", overview.failed);
    count("webhook_delivered", "Delivered events that retention still keeps", overview.delivered);
    let oldest = overview.oldest_pending_age.unwrap_or_default().as_secs_f64();
    registry.register(
        "webhook_oldest_pending_age",
        "Seconds since the oldest pending event was created, 0 when there is none",
        ConstGauge::new(oldest),
    );
    registry
}

/// Scrape metrics
///
/// In the text format of OpenMetrics where it is accepted, else in that of Prometheus. What the store counts is at most a
/// second old, and left out while the store is away.
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
    State(service): State<Arc<Service>>,
    _: Allowed<Reading>,
    headers: HeaderMap,
) -> Response {
    let clock = &*service.clock;
    let reading = async {
        match within(clock, COUNTED_WITHIN, service.store.overview()).await {
            Some(Ok(overview)) => Some(overview),
            Some(Err(error)) => {
                tracing::warn!(code = error.code(), %error, "the outbox could not be counted for a scrape");
                None
            }
            None => {
                tracing::warn!("the outbox was not counted within {COUNTED_WITHIN:?} for a scrape");
                None
            }
        }
    };
    let overview = service.counts.get(clock, reading).await;
    service.metrics.feel_pulses();
    let outbox = overview.as_ref().map(gauges);
    let open = headers.get_all(ACCEPT).iter().any(|accepted| {
        accepted.to_str().is_ok_and(|accepted| accepted.contains("application/openmetrics-text"))
    });
    let (content_type, text) = text::render(&service.metrics.registry, outbox.as_ref(), open);
    ([(CONTENT_TYPE, HeaderValue::from_static(content_type))], text).into_response()
}
