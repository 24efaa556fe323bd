//! What the API is made of, and the router that puts it together.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum::middleware::{from_fn, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use http::Uri;
use posthaste_domain::RetryPolicy;
use posthaste_engine::{Clock, Enqueuer, Publisher, TokioClock};
use posthaste_store::{Overview, Store};
use tower_http::catch_panic::CatchPanicLayer;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::access::{self, Access};
use crate::body::Bodies;
use crate::error::ApiError;
use crate::fresh::Fresh;
use crate::health::{Check, Readiness};
use crate::metrics::Metrics;
use crate::stream::Streams;
use crate::{
    actions, dead_letters, document, enqueue, events, headers, health, metrics, overview, reference, stream,
};

/// Everything that the API is made of.
pub struct Api {
    pub store: Arc<dyn Store>,
    /// Its loop must be running.
    pub enqueuer: Enqueuer,
    /// Somebody must be running it, or followers see nothing new.
    pub publisher: Publisher,
    pub access: Access,
    pub intake: Intake,
    /// That of the workers, or what is told of an event's retries is not what happens.
    pub retry_policy: RetryPolicy,
    pub metrics: Arc<Metrics>,
    pub readiness: Arc<dyn Readiness>,
    /// Ended by whoever shuts the service down.
    pub streams: Streams,
    /// Shown to operators with the overview.
    pub warnings: Vec<String>,
}

/// What is taken in.
#[derive(Debug, Clone, Copy)]
pub struct Intake {
    /// Largest payload of one event.
    pub payload_bytes_max: usize,
    /// Attempts of an event that asks for no number.
    pub max_attempts: u32,
    /// How long an idempotency key is remembered.
    pub idempotency_keep: Duration,
}

/// What handlers share.
pub(crate) struct Service {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) enqueuer: Enqueuer,
    pub(crate) publisher: Publisher,
    pub(crate) access: Access,
    pub(crate) intake: Intake,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) streams: Streams,
    pub(crate) warnings: Vec<String>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) bodies: Bodies,
    /// None while the store is away.
    pub(crate) counts: Fresh<Option<Overview>>,
    pub(crate) ready: Fresh<Vec<Check>>,
}

impl Api {
    /// The API, and whatever else is to stand behind the same checks, such as the operators' page at `/`.
    pub fn router(self, beside: Router) -> Router {
        self.serving(Router::from(documented()).merge(reference::routes()).merge(beside.with_state(())))
    }

    /// Only what watches a process: metrics, liveness and readiness.
    pub fn probes(self) -> Router {
        self.serving(Router::from(watched()))
    }

    fn serving(self, routes: Router<Arc<Service>>) -> Router {
        let service = Arc::new(Service {
            store: self.store,
            enqueuer: self.enqueuer,
            publisher: self.publisher,
            access: self.access,
            intake: self.intake,
            retry_policy: self.retry_policy,
            metrics: self.metrics,
            readiness: self.readiness,
            streams: self.streams,
            warnings: self.warnings,
            clock: Arc::new(TokioClock::start()),
            bodies: Bodies::default(),
            counts: Fresh::default(),
            ready: Fresh::default(),
        });
        // Layers wrap what stands above them: the last is the first to see a request.
        routes
            .fallback(no_such_route)
            .method_not_allowed_fallback(method_not_allowed)
            .layer(from_fn_with_state(Arc::clone(&service), access::guard))
            .layer(CatchPanicLayer::custom(panicked))
            .layer(from_fn(headers::completed))
            .layer(from_fn_with_state(Arc::clone(&service), metrics::counted))
            .with_state(service)
    }
}

/// The routes that the document describes.
pub(crate) fn documented() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::with_openapi(document::frame())
        .routes(routes!(enqueue::enqueue, events::events))
        .routes(routes!(events::event))
        .routes(routes!(actions::cancel))
        .routes(routes!(overview::overview))
        .routes(routes!(dead_letters::dead_letters))
        .routes(routes!(actions::requeue))
        .routes(routes!(stream::stream))
        .merge(watched())
        .routes(routes!(document::serve))
}

fn watched() -> OpenApiRouter<Arc<Service>> {
    OpenApiRouter::new()
        .routes(routes!(metrics::scrape))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
}

/// The answer where there is nothing, also for whoever answers beside the API.
pub async fn no_such_route(uri: Uri) -> Response {
    ApiError::NoSuchRoute { path: uri.path().chars().take(200).collect() }.into_response()
}

async fn method_not_allowed(request: Request) -> ApiError {
    ApiError::MethodNotAllowed { method: request.method().as_str().chars().take(32).collect() }
}

/// The panic itself has been reported by the process's hook.
fn panicked(_: Box<dyn Any + Send>) -> Response {
    tracing::error!("a handler panicked; this is a bug");
    ApiError::Panicked.into_response()
}
