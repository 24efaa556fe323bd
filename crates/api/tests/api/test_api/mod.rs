//! An API to send requests to: its router over a store, with its background tasks running.

mod events;
mod faulty_store;
mod openapi;
mod response;
mod stores;
mod worker;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use http::{HeaderName, HeaderValue, Method, Request};
use posthaste_api::{
    Access, Api, Check, DestinationCheck, EnqueueSettings, KeyRing, Metrics, RandomBytes, Readiness,
    RegistrySettings, SelfChecks, Streams,
};
use posthaste_domain::RetryPolicy;
use posthaste_engine::{Clock as _, Publisher, TokioClock};
use posthaste_store::Store;
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) use events::{
    claim_all, event, event_to, http_status, policy_with_budget, settle, settle_with_policy,
};
pub(crate) use faulty_store::{Fault, FaultyStore};
pub(crate) use openapi::{DocumentedOperation, documented_operations};
pub(crate) use response::TestResponse;
pub(crate) use stores::memory_at;

pub(crate) const EVENTS: &str = "/v1/webhook-outbox/events";
pub(crate) const DLQ: &str = "/v1/webhook-outbox/dlq";
pub(crate) const OVERVIEW: &str = "/v1/webhook-outbox/overview";
pub(crate) const STREAM: &str = "/v1/webhook-outbox/stream";

/// One key for each role.
pub(crate) const KEYS: &str =
    "orders:producer:producer-0123456789,ops:operator:operator-0123456789,eyes:viewer:viewer-0123456789";
pub(crate) const PRODUCER: &str = "producer-0123456789";
pub(crate) const OPERATOR: &str = "operator-0123456789";
pub(crate) const VIEWER: &str = "viewer-0123456789";

/// Maximum attempts of an event that does not set its own.
pub(crate) const MAX_ATTEMPTS: u32 = 6;
/// A small maximum, so that a test can exceed it.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 4 << 10;

#[derive(Clone)]
pub(crate) struct TestApi {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) router: Router,
    pub(crate) streams: Streams,
    pub(crate) metrics: Arc<Metrics>,
    /// Resources that must outlive the store: a directory or a database.
    _resources: Arc<dyn Any + Send + Sync>,
}

/// Settings that a test may change.
pub(crate) struct TestOptions {
    pub(crate) access: Access,
    pub(crate) producer_excerpts: bool,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) self_checks: Arc<dyn SelfChecks>,
    pub(crate) warnings: Vec<String>,
    pub(crate) retry_policy: RetryPolicy,
    pub(crate) payload_bytes_max: usize,
    pub(crate) destination_check: Arc<dyn DestinationCheck>,
}

impl Default for TestOptions {
    fn default() -> Self {
        Self {
            access: loopback(),
            producer_excerpts: false,
            readiness: Arc::new(FixedReadiness(vec![])),
            self_checks: Arc::new(()),
            warnings: Vec::new(),
            retry_policy: RetryPolicy::default(),
            payload_bytes_max: PAYLOAD_BYTES_MAX,
            destination_check: Arc::new(()),
        }
    }
}

pub(crate) fn loopback() -> Access {
    Access::Loopback { listen: "127.0.0.1:8600".parse().unwrap() }
}

pub(crate) fn keys() -> Access {
    Access::Keys(KeyRing::parse(KEYS).unwrap())
}

/// Bytes that are not random. No test of these routes draws any.
struct FixedBytes;

impl RandomBytes for FixedBytes {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

/// Readiness with fixed results.
pub(crate) struct FixedReadiness(pub(crate) Vec<Check>);

#[async_trait]
impl Readiness for FixedReadiness {
    async fn check(&self) -> Vec<Check> {
        self.0.clone()
    }
}

/// A readiness check that panics.
pub(crate) struct PanickingReadiness;

#[async_trait]
impl Readiness for PanickingReadiness {
    async fn check(&self) -> Vec<Check> {
        panic!("a bug in a readiness check")
    }
}

impl TestApi {
    /// An API without keys, with default options.
    pub(crate) fn on_store(store: Arc<dyn Store>, resources: Arc<dyn Any + Send + Sync>) -> Self {
        Self::new(store, resources, TestOptions::default())
    }

    pub(crate) fn new(
        store: Arc<dyn Store>,
        resources: Arc<dyn Any + Send + Sync>,
        options: TestOptions,
    ) -> Self {
        let publisher = Publisher::new(Arc::clone(&store));
        tokio::spawn(publisher.clone().run(Arc::new(TokioClock::start()), Duration::from_millis(10)));
        let (streams, metrics) = (Streams::new(), Metrics::new());
        let api = Api {
            store: Arc::clone(&store),
            publisher,
            access: options.access,
            producer_excerpts: options.producer_excerpts,
            enqueue_settings: EnqueueSettings {
                payload_bytes_max: options.payload_bytes_max,
                default_max_attempts: MAX_ATTEMPTS,
                idempotency_retention: std::time::Duration::from_secs(24 * 3_600),
            },
            destination_check: options.destination_check,
            retry_policy: options.retry_policy,
            metrics: Arc::clone(&metrics),
            readiness: options.readiness,
            self_checks: options.self_checks,
            streams: streams.clone(),
            warnings: options.warnings,
            registry: RegistrySettings::new(Arc::new(FixedBytes)),
        };
        Self { store, router: api.router(axum::Router::new()), streams, metrics, _resources: resources }
    }

    /// Another API on the same store.
    pub(crate) fn with_options(&self, options: TestOptions) -> Self {
        Self::new(Arc::clone(&self.store), Arc::clone(&self._resources), options)
    }

    /// An API on the same store that requires keys.
    pub(crate) fn with_keys(&self) -> Self {
        self.with_options(TestOptions { access: keys(), ..TestOptions::default() })
    }

    /// Sends a request and checks that the OpenAPI document describes the response.
    pub(crate) async fn send(&self, request: Request<Body>) -> TestResponse {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let response = TestResponse::read(self.router.clone().oneshot(request).await.unwrap()).await;
        openapi::check(&method, &path, &response);
        response
    }

    pub(crate) async fn get(&self, path: &str) -> TestResponse {
        self.send(build_request(Method::GET, path, &[], Body::empty())).await
    }

    pub(crate) async fn get_head(&self, path: &str) -> TestResponse {
        self.send(build_request(Method::HEAD, path, &[], Body::empty())).await
    }

    pub(crate) async fn get_as(&self, key: &str, path: &str) -> TestResponse {
        self.send(build_request(Method::GET, path, &[bearer(key)], Body::empty())).await
    }

    /// Posts JSON text, byte for byte.
    pub(crate) async fn post(&self, path: &str, json: impl Into<Body>) -> TestResponse {
        self.post_with(path, &[], json).await
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        json: impl Into<Body>,
    ) -> TestResponse {
        let json_type = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let headers: Vec<_> = headers.iter().cloned().chain([json_type]).collect();
        self.send(build_request(Method::POST, path, &headers, json.into())).await
    }

    pub(crate) async fn enqueue(&self, event: &Value) -> TestResponse {
        self.post(EVENTS, event.to_string()).await
    }

    /// Posts without a body, as operator actions do.
    pub(crate) async fn post_empty(&self, path: &str) -> TestResponse {
        self.send(build_request(Method::POST, path, &[], Body::empty())).await
    }
}

/// Fails a test that would otherwise hang.
pub(crate) async fn within_a_minute<T>(future: impl Future<Output = T>) -> T {
    let clock = TokioClock::start();
    tokio::select! {
        value = future => value,
        () = clock.sleep(Duration::from_secs(60)) => panic!("nothing happened within a minute"),
    }
}

/// Sleeps for a few milliseconds between checks of a condition.
pub(crate) async fn pause_briefly() {
    TokioClock::start().sleep(Duration::from_millis(2)).await;
}

/// Builds a request to a loopback host.
pub(crate) fn build_request(
    method: Method,
    path: &str,
    headers: &[(HeaderName, HeaderValue)],
    body: Body,
) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8600");
    for (name, value) in headers {
        request = request.header(name, value);
    }
    request.body(body).unwrap()
}

pub(crate) fn bearer(key: &str) -> (HeaderName, HeaderValue) {
    header("authorization", &format!("Bearer {key}"))
}

pub(crate) fn header(name: &'static str, value: &str) -> (HeaderName, HeaderValue) {
    (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
}

/// Declares one test for each case and store.
#[macro_export]
macro_rules! on_every_store {
    ($($case:ident,)+) => {
        $crate::on_every_store! { @on on_memory $($case,)+ }
        $crate::on_every_store! { @on on_sqlite $($case,)+ }
        $crate::on_every_store! { @on on_postgres $($case,)+ }
    };
    (@on $store:ident $($case:ident,)+) => {
        mod $store {
            $(#[tokio::test]
            async fn $case() {
                super::$case($crate::test_api::TestApi::$store().await).await;
            })+
        }
    };
}
