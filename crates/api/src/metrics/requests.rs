//! Requests to this API, by route and status. Labels are templates and codes, never what a client wrote.

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

use crate::api::Service;

const SECONDS: [f64; 12] = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0, 30.0];

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByAnswer {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByRoute {
    method: &'static str,
    route: String,
}

pub(super) struct Requests {
    answered: Family<ByAnswer, Counter>,
    took: Family<ByRoute, Histogram, fn() -> Histogram>,
}

impl Requests {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let requests = Self {
            answered: Family::default(),
            took: Family::new_with_constructor(|| Histogram::new(SECONDS)),
        };
        registry.register(
            "webhook_api_requests",
            "Requests to this API, by method, route and status",
            requests.answered.clone(),
        );
        registry.register(
            "webhook_api_request_duration",
            "Seconds until the API's answer began",
            requests.took.clone(),
        );
        requests
    }
}

pub(crate) async fn counted(State(service): State<Arc<Service>>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("unmatched", MatchedPath::as_str).to_owned();
    let method = label(request.method());
    let started_at = service.clock.monotonic();
    let response = next.run(request).await;
    let took = service.clock.monotonic().saturating_sub(started_at);
    let requests = &service.metrics.requests;
    let status = response.status().as_u16();
    requests.took.get_or_create(&ByRoute { method, route: route.clone() }).observe(took.as_secs_f64());
    requests.answered.get_or_create(&ByAnswer { method, route, status }).inc();
    response
}

/// A client may send any word as a method.
fn label(method: &Method) -> &'static str {
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
