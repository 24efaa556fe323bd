//! Metrics of requests to this API, by route and status. Labels are route templates and status codes, never client input.

use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use http::Method;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::api::ApiState;

/// Histogram buckets for request durations.
const DURATION_SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ResponseLabels {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    method: &'static str,
    route: String,
}

/// Counters and durations of API requests.
pub(super) struct RequestMetrics {
    responses: Family<ResponseLabels, Counter>,
    duration: Family<RouteLabels, Histogram, fn() -> Histogram>,
    pub(super) idempotency_mismatches: Counter,
}

impl RequestMetrics {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Self {
            responses: Family::default(),
            duration: Family::new_with_constructor(|| Histogram::new(DURATION_SECONDS)),
            idempotency_mismatches: Counter::default(),
        };
        registry.register(
            "webhook_api_requests",
            "Requests to this API, by method, route and status",
            requests.responses.clone(),
        );
        registry.register(
            "webhook_api_request_duration",
            "Seconds until the API's response began",
            requests.duration.clone(),
        );
        registry.register(
            "webhook_api_idempotency_mismatches",
            "Requests to the registry that repeated an idempotency key with another body and got the first answer",
            requests.idempotency_mismatches.clone(),
        );
        requests
    }
}

/// Middleware: counts a request and measures its duration.
pub(crate) async fn count_requests(
    State(state): State<Arc<ApiState>>,
    request: Request,
    next: Next,
) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let method = method_label(request.method());
    let started_at = state.clock.monotonic();
    let response = next.run(request).await;
    let duration = state.clock.monotonic().saturating_sub(started_at);
    let requests = &state.metrics.requests;
    let status = response.status().as_u16();
    requests
        .duration
        .get_or_create(&RouteLabels { method, route: route.clone() })
        .observe(duration.as_secs_f64());
    requests.responses.get_or_create(&ResponseLabels { method, route, status }).inc();
    response
}

/// Returns the label of a method. Clients may send arbitrary methods, so unknown ones share a label.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
