//! The API's dependencies and its router.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::Uri;
use posthaste_domain::{DestinationUrl, RetryPolicy};
use posthaste_engine::{Clock, Publisher, TokioClock};
use posthaste_store::{Store, StoreError};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{self, Access};
use crate::body::BodyReader;
use crate::cached::Cached;
use crate::diagnosis::{DIAGNOSIS_MAX_AGE, Finding, SelfChecks};
use crate::error::ApiError;
use crate::health::{Check, Readiness};
use crate::metrics::{Metrics, StoreGauges};
use crate::registry::{self, RegistrySettings, RegistryState};
use crate::stream::Streams;
use crate::trouble::{TROUBLE_MAX_AGE, TroubleBody};
use crate::{
    actions, activity, bulk, caller, content, dead_letters, destinations, diagnosis, document, enqueue,
    events, headers, health, metrics, operations, overview, reference, stream, trouble,
};

/// The dependencies and settings of the API.
pub struct Api {
    pub store: Arc<dyn Store>,
    /// The source of live notices. Its loop must be running, or streams send nothing new.
    pub publisher: Publisher,
    pub access: Access,
    /// Whether producers see excerpts of responses to their events. A producer chooses where its events are sent.
    pub producer_excerpts: bool,
    pub enqueue_settings: EnqueueSettings,
    /// Refuses events whose destination can never be sent to.
    pub destination_check: Arc<dyn DestinationCheck>,
    /// The retry policy of the workers. Explanations of pending events are computed from it.
    pub retry_policy: RetryPolicy,
    pub metrics: Arc<Metrics>,
    pub readiness: Arc<dyn Readiness>,
    /// The checks that operators can request.
    pub self_checks: Arc<dyn SelfChecks>,
    /// The open notice streams. The owner keeps a clone to end them at shutdown.
    pub streams: Streams,
    /// Configuration warnings, shown to operators with the overview.
    pub warnings: Vec<String>,
    /// Keys and settings of the registry under `/api/v1`.
    pub registry: RegistrySettings,
}

/// Limits and defaults for new events.
#[derive(Debug, Clone, Copy)]
pub struct EnqueueSettings {
    /// Maximum size of one payload.
    pub payload_bytes_max: usize,
    /// Maximum attempts of an event whose request does not set `max_attempts`.
    pub default_max_attempts: u32,
    /// How long an idempotency key is remembered.
    pub idempotency_retention: Duration,
}

/// Decides whether a destination can be sent to, before an event to it is accepted.
pub trait DestinationCheck: Send + Sync + 'static {
    /// Returns the reason why every delivery to this destination would be refused, if there is one. It must not look up the
    /// host's name: the result of a lookup may change before the event is sent.
    fn check(&self, destination: &DestinationUrl) -> Result<(), String>;
}

/// Accepts every destination.
impl DestinationCheck for () {
    fn check(&self, _: &DestinationUrl) -> Result<(), String> {
        Ok(())
    }
}

/// The state that all handlers share.
pub(crate) struct ApiState {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) publisher: Publisher,
    pub(crate) access: Access,
    pub(crate) producer_excerpts: bool,
    pub(crate) enqueue_settings: EnqueueSettings,
    pub(crate) destination_check: Arc<dyn DestinationCheck>,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) self_checks: Arc<dyn SelfChecks>,
    pub(crate) streams: Streams,
    pub(crate) warnings: Vec<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bodies: BodyReader,
    /// The store's gauges for `/metrics`; `None` while the store is unavailable.
    pub(crate) store_gauges_cache: Cached<Option<StoreGauges>>,
    pub(crate) readiness_cache: Cached<Vec<Check>>,
    pub(crate) diagnosis_cache: Cached<Vec<Finding>>,
    pub(crate) trouble_cache: Cached<Result<TroubleBody, StoreError>>,
    pub(crate) registry: RegistryState,
}

impl Api {
    /// Returns the router of the API merged with `other_routes`, such as the dashboard at `/`. The same middleware guards
    /// both.
    pub fn router(self, other_routes: Router) -> Router {
        let documented = Router::from(documented_routes()).merge(registry::router());
        self.into_router(documented.merge(reference::routes()).merge(other_routes.with_state(())))
    }

    /// Returns a router with metrics, liveness and readiness only.
    pub fn probe_router(self) -> Router {
        self.into_router(Router::from(probe_routes()))
    }

    fn into_router(self, routes: Router<Arc<ApiState>>) -> Router {
        let state = Arc::new(ApiState {
            store: self.store,
            publisher: self.publisher,
            access: self.access,
            producer_excerpts: self.producer_excerpts,
            enqueue_settings: self.enqueue_settings,
            destination_check: self.destination_check,
            retry_policy: self.retry_policy,
            metrics: self.metrics,
            readiness: self.readiness,
            self_checks: self.self_checks,
            streams: self.streams,
            warnings: self.warnings,
            clock: Arc::new(TokioClock::start()),
            bodies: BodyReader::default(),
            store_gauges_cache: Cached::default(),
            readiness_cache: Cached::default(),
            diagnosis_cache: Cached::with_max_age(DIAGNOSIS_MAX_AGE),
            trouble_cache: Cached::with_max_age(TROUBLE_MAX_AGE),
            registry: RegistryState::new(self.registry),
        });
        // A layer wraps everything above it: the last layer sees a request first.
        routes
            .fallback(route_not_found)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(from_fn_with_state(Arc::clone(&state), access::require_loopback))
            .layer(CatchPanicLayer::custom(panic_response))
            .layer(from_fn(headers::add_default_headers))
            .layer(from_fn_with_state(Arc::clone(&state), metrics::count_requests))
            .with_state(state)
    }
}

/// Returns all routes that the OpenAPI document describes.
pub(crate) fn documented_routes() -> OpenApiRouter<Arc<ApiState>> {
    OpenApiRouter::with_openapi(document::base_document())
        .routes(routes!(enqueue::enqueue, events::events))
        .routes(routes!(events::event))
        .routes(routes!(content::content))
        .routes(routes!(actions::cancel))
        .routes(routes!(actions::replay))
        .routes(routes!(overview::overview))
        .routes(routes!(activity::history))
        .routes(routes!(activity::workers))
        .routes(routes!(dead_letters::dead_letters))
        .routes(routes!(actions::requeue))
        .routes(routes!(actions::discard))
        .routes(routes!(bulk::start, bulk::operations))
        .routes(routes!(bulk::operation))
        .routes(routes!(bulk::stop))
        .routes(routes!(destinations::destinations))
        .routes(routes!(destinations::destination))
        .routes(routes!(destinations::pause))
        .routes(routes!(destinations::resume))
        .routes(routes!(destinations::probe))
        .routes(routes!(trouble::trouble))
        .routes(routes!(operations::operations))
        .routes(routes!(operations::stop))
        .routes(routes!(stream::stream))
        .routes(routes!(caller::whoami))
        .routes(routes!(diagnosis::doctor))
        .merge(probe_routes())
        .routes(routes!(document::serve))
}

fn probe_routes() -> OpenApiRouter<Arc<ApiState>> {
    OpenApiRouter::new()
        .routes(routes!(metrics::scrape))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// The 404 response with the API's error envelope. Public for routers that are merged with the API.
pub async fn route_not_found(uri: Uri) -> Response {
    ApiError::RouteNotFound { path: uri.path().chars().take(200).collect() }.into_response()
}

async fn method_not_allowed(request: Request) -> ApiError {
    ApiError::MethodNotAllowed { method: request.method().as_str().chars().take(32).collect() }
}

/// The response after a handler panicked. The process's panic hook has logged the panic itself.
fn panic_response(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a request handler panicked; this is a bug");
    ApiError::Panicked.into_response()
}
