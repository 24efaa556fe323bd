//! A service to call: its router over a store, with everything running that it needs.

mod answer;
mod documented;
mod faults;
mod flow;
mod stores;
mod worker;

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use http::{HeaderName, HeaderValue, Method, Request};
use posthaste_api::{Access, Api, Check, Intake, KeyRing, Metrics, Readiness, Streams};
use posthaste_domain::RetryPolicy;
use posthaste_engine::{Clock as _, Enqueuer, Publisher, TokioClock, enqueuer};
use posthaste_store::Store;
use serde_json::Value;
use tower::ServiceExt as _;

pub(crate) use answer::Answer;
pub(crate) use documented::{Operation, operations};
pub(crate) use faults::{Fault, Faulty};
pub(crate) use flow::{Event, budget, claim_all, event, event_to, settle, settle_under, status};
pub(crate) use stores::memory_at;

pub(crate) const EVENTS: &str = "/v1/webhook-outbox/events";
pub(crate) const DLQ: &str = "/v1/webhook-outbox/dlq";
pub(crate) const OVERVIEW: &str = "/v1/webhook-outbox/overview";
pub(crate) const STREAM: &str = "/v1/webhook-outbox/stream";

/// One key for each role, as their names say.
pub(crate) const KEYS: &str =
    "orders:producer:producer-0123456789,ops:operator:operator-0123456789,eyes:viewer:viewer-0123456789";
pub(crate) const PRODUCER: &str = "producer-0123456789";
pub(crate) const OPERATOR: &str = "operator-0123456789";
pub(crate) const VIEWER: &str = "viewer-0123456789";

/// Attempts of events that ask for no number.
pub(crate) const MAX_ATTEMPTS: u32 = 6;
/// Small, so that a test can go beyond it.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 4 << 10;

#[derive(Clone)]
pub(crate) struct Stage {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) router: Router,
    pub(crate) streams: Streams,
    pub(crate) metrics: Arc<Metrics>,
    /// What must outlive the store: a directory, a database.
    _keep: Arc<dyn Any + Send + Sync>,
}

/// What a test may want otherwise.
pub(crate) struct Setting {
    pub(crate) access: Access,
    pub(crate) readiness: Arc<dyn Readiness>,
    pub(crate) warnings: Vec<String>,
    pub(crate) retry_policy: RetryPolicy,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            access: loopback(),
            readiness: Arc::new(Ready(vec![])),
            warnings: Vec::new(),
            retry_policy: RetryPolicy::default(),
        }
    }
}

pub(crate) fn loopback() -> Access {
    Access::Loopback { listen: "127.0.0.1:8600".parse().unwrap() }
}

pub(crate) fn keys() -> Access {
    Access::Keys(KeyRing::parse(KEYS).unwrap())
}

pub(crate) struct Ready(pub(crate) Vec<Check>);

#[async_trait]
impl Readiness for Ready {
    async fn check(&self) -> Vec<Check> {
        self.0.clone()
    }
}

/// A check with a bug.
pub(crate) struct Panicking;

#[async_trait]
impl Readiness for Panicking {
    async fn check(&self) -> Vec<Check> {
        panic!("a bug of our own")
    }
}

impl Stage {
    /// On a store that is told nothing of its users: no keys, everything well.
    pub(crate) fn over(store: Arc<dyn Store>, keep: Arc<dyn Any + Send + Sync>) -> Self {
        Self::set(store, keep, Setting::default())
    }

    pub(crate) fn set(store: Arc<dyn Store>, keep: Arc<dyn Any + Send + Sync>, setting: Setting) -> Self {
        let (enqueuer, enqueuing) = enqueuer(Arc::clone(&store));
        tokio::spawn(enqueuing);
        Self::assemble(store, keep, setting, enqueuer)
    }

    /// As it is while the process shuts down.
    pub(crate) fn without_enqueuer(store: Arc<dyn Store>) -> Self {
        let (enqueuer, _) = enqueuer(Arc::clone(&store));
        Self::assemble(store, Arc::new(()), Setting::default(), enqueuer)
    }

    fn assemble(
        store: Arc<dyn Store>,
        keep: Arc<dyn Any + Send + Sync>,
        setting: Setting,
        enqueuer: Enqueuer,
    ) -> Self {
        let publisher = Publisher::new(Arc::clone(&store));
        tokio::spawn(publisher.clone().run(Arc::new(TokioClock::start()), Duration::from_millis(10)));
        let (streams, metrics) = (Streams::new(), Metrics::new());
        let api = Api {
            store: Arc::clone(&store),
            enqueuer,
            publisher,
            access: setting.access,
            intake: Intake {
                payload_bytes_max: PAYLOAD_BYTES_MAX,
                max_attempts: MAX_ATTEMPTS,
                idempotency_keep: std::time::Duration::from_secs(24 * 3_600),
            },
            retry_policy: setting.retry_policy,
            metrics: Arc::clone(&metrics),
            readiness: setting.readiness,
            streams: streams.clone(),
            warnings: setting.warnings,
        };
        Self { store, router: api.router(axum::Router::new()), streams, metrics, _keep: keep }
    }

    /// Another service on the same store.
    pub(crate) fn with(&self, setting: Setting) -> Self {
        Self::set(Arc::clone(&self.store), Arc::clone(&self._keep), setting)
    }

    /// The same store behind keys.
    pub(crate) fn with_keys(&self) -> Self {
        self.with(Setting { access: keys(), ..Setting::default() })
    }

    /// Nothing is answered that the document does not tell of.
    pub(crate) async fn send(&self, request: Request<Body>) -> Answer {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = Answer::of(self.router.clone().oneshot(request).await.unwrap()).await;
        documented::check(&method, &path, &answer);
        answer
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(call(Method::GET, path, &[], Body::empty())).await
    }

    pub(crate) async fn get_head(&self, path: &str) -> Answer {
        self.send(call(Method::HEAD, path, &[], Body::empty())).await
    }

    pub(crate) async fn get_as(&self, key: &str, path: &str) -> Answer {
        self.send(call(Method::GET, path, &[bearer(key)], Body::empty())).await
    }

    /// JSON text, byte for byte.
    pub(crate) async fn post(&self, path: &str, json: impl Into<Body>) -> Answer {
        self.post_with(path, &[], json).await
    }

    pub(crate) async fn post_with(
        &self,
        path: &str,
        headers: &[(HeaderName, HeaderValue)],
        json: impl Into<Body>,
    ) -> Answer {
        let json_type = (http::header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        let headers: Vec<_> = headers.iter().cloned().chain([json_type]).collect();
        self.send(call(Method::POST, path, &headers, json.into())).await
    }

    pub(crate) async fn enqueue(&self, event: &Value) -> Answer {
        self.post(EVENTS, event.to_string()).await
    }

    /// Operators' actions: a POST without a body.
    pub(crate) async fn act(&self, path: &str) -> Answer {
        self.send(call(Method::POST, path, &[], Body::empty())).await
    }
}

/// Makes what never comes a failure instead of a hang.
pub(crate) async fn soon<T>(future: impl Future<Output = T>) -> T {
    let clock = TokioClock::start();
    tokio::select! {
        value = future => value,
        () = clock.sleep(Duration::from_secs(60)) => panic!("it did not come within a minute"),
    }
}

/// Lets a little time pass, for whoever waits for a fact.
pub(crate) async fn moment() {
    TokioClock::start().sleep(Duration::from_millis(2)).await;
}

/// A request from this machine.
pub(crate) fn call(
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

/// One test for each case and store, under the case's name.
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
                super::$case($crate::stage::Stage::$store().await).await;
            })+
        }
    };
}
