//! A registry to send requests to: the API's router over a memory store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use axum::Router;
use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt as _;
use posthaste_api::{
    Access, Api, Check, DestinationCheck, EnqueueSettings, KeyRing, Metrics, RandomBytes, Readiness,
    RegistrySettings, Streams, TokenClaims, TokenSecret,
};
use posthaste_domain::seal::MasterKeys;
use posthaste_domain::{
    ApplicationId, AttemptResult, ClaimId, DestinationUrl, OrgId, Outcome, RandomDraw, RetryPolicy,
    RetryPolicySpec, Timestamp, Transition, WorkerId,
};
use posthaste_engine::Publisher;
use posthaste_store::{ClaimRequest, FixedSlots, PaceSlots, SettleResult, Settlement, Store};
use posthaste_store_memory::{ManualClock, MemoryStore};
use serde_json::{Value, json};
use tower::ServiceExt as _;

/// The time at which the store's clock stands: 2023-11-14T22:13:20Z.
pub(crate) const NOW: Timestamp = Timestamp::from_secs(1_700_000_000);
pub(crate) const PAYLOAD_BYTES_MAX: usize = 4 << 10;
pub(crate) const OPERATOR: &str = "operator-0123456789";
pub(crate) const PRODUCER: &str = "producer-0123456789";
pub(crate) const VIEWER: &str = "viewer-0123456789";
/// A key of the first application of a store.
pub(crate) const APP_KEY: &str = "application-0123456789";
const KEYS: &str = "orders:producer:producer-0123456789,ops:operator:operator-0123456789,\
                    eyes:viewer:viewer-0123456789,shop:app:app_0000000000000001:application-0123456789";
const TOKEN_SECRET: &str = "the secret of the tokens in tests";

/// Distinct bytes for every value that any registry draws.
struct CountingBytes;

impl RandomBytes for CountingBytes {
    fn fill(&self, bytes: &mut [u8]) {
        static DRAWN: AtomicU32 = AtomicU32::new(0);
        let number = DRAWN.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        bytes.iter_mut().zip(number.into_iter().cycle()).for_each(|(byte, digit)| *byte = digit);
    }
}

struct AlwaysReady;

#[async_trait]
impl Readiness for AlwaysReady {
    async fn check(&self) -> Vec<Check> {
        vec![]
    }
}

/// Refuses one host.
struct OneHostRefused;

impl DestinationCheck for OneHostRefused {
    fn check(&self, destination: &DestinationUrl) -> Result<(), String> {
        match destination.host().as_str() {
            "refused.example" => Err("requests to this host are refused".to_owned()),
            _ => Ok(()),
        }
    }
}

#[derive(Clone)]
pub(crate) struct TestRegistry {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Arc<ManualClock>,
    router: Router,
    /// The key or token of every request.
    bearer: String,
}

/// A response whose body was read to its end.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Reply {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// Asserts the status and returns the JSON body.
    #[track_caller]
    pub(crate) fn json(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        assert_eq!(self.headers["content-type"], "application/json");
        assert_eq!(self.headers["x-content-type-options"], "nosniff");
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Asserts a response without a body.
    #[track_caller]
    pub(crate) fn empty(&self, status: u16) {
        assert_eq!((self.status.as_u16(), self.text()), (status, ""));
    }

    /// Asserts an error in the form `{"code","detail"}`.
    #[track_caller]
    pub(crate) fn error(&self, status: u16, code: &str) -> String {
        let body = self.json(status);
        assert_eq!(body["code"], code, "{body}");
        assert_eq!(body.as_object().unwrap().len(), 2, "{body}");
        body["detail"].as_str().unwrap().to_owned()
    }

    /// Asserts a 422 at this place.
    #[track_caller]
    pub(crate) fn invalid(&self, loc: &[&str]) -> String {
        let body = self.json(422);
        let problems = body["detail"].as_array().unwrap();
        assert_eq!(problems.len(), 1, "{body}");
        assert_eq!(problems[0]["loc"], json!(loc), "{body}");
        assert!(problems[0]["type"].is_string(), "{body}");
        problems[0]["msg"].as_str().unwrap().to_owned()
    }

    pub(crate) fn is_replayed(&self) -> bool {
        self.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
    }
}

impl TestRegistry {
    /// A registry over an empty store, with the key of an operator.
    pub(crate) fn new() -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        Self::over(Arc::new(MemoryStore::new(clock.clone(), 1)), clock)
    }

    pub(crate) fn over(store: Arc<dyn Store>, clock: Arc<ManualClock>) -> Self {
        let keys = Access::Keys(KeyRing::parse(KEYS).unwrap());
        let master_keys = MasterKeys::parse(&format!("k1:{}=", "A".repeat(43))).unwrap();
        let settings = RegistrySettings {
            token_secret: Some(Arc::new(TokenSecret::new(TOKEN_SECRET).unwrap())),
            master_keys: Arc::new(master_keys),
            public_url: Some("https://hooks.example/".to_owned()),
            ..RegistrySettings::new(Arc::new(CountingBytes))
        };
        Self::with_settings(store, clock, keys, settings)
    }

    /// A registry without keys, tokens and master keys.
    pub(crate) fn local() -> Self {
        let clock = Arc::new(ManualClock::at(NOW));
        let access = Access::Loopback { listen: "127.0.0.1:8600".parse().unwrap() };
        let settings = RegistrySettings::new(Arc::new(CountingBytes));
        Self::with_settings(Arc::new(MemoryStore::new(clock.clone(), 1)), clock, access, settings)
    }

    fn with_settings(
        store: Arc<dyn Store>,
        clock: Arc<ManualClock>,
        access: Access,
        registry: RegistrySettings,
    ) -> Self {
        let api = Api {
            store: Arc::clone(&store),
            publisher: Publisher::new(Arc::clone(&store)),
            access,
            producer_excerpts: false,
            enqueue_settings: EnqueueSettings {
                payload_bytes_max: PAYLOAD_BYTES_MAX,
                default_max_attempts: 6,
                idempotency_retention: Duration::from_secs(24 * 3_600),
            },
            destination_check: Arc::new(OneHostRefused),
            retry_policy: RetryPolicy::default(),
            metrics: Metrics::new(),
            readiness: Arc::new(AlwaysReady),
            self_checks: Arc::new(()),
            streams: Streams::new(),
            warnings: Vec::new(),
            registry,
        };
        Self { store, clock, router: api.router(Router::new()), bearer: OPERATOR.to_owned() }
    }

    /// The same registry, with this key or token.
    pub(crate) fn with_bearer(&self, bearer: &str) -> Self {
        Self { bearer: bearer.to_owned(), ..self.clone() }
    }

    /// Another process on the same store.
    pub(crate) fn restarted(&self) -> Self {
        Self::over(Arc::clone(&self.store), Arc::clone(&self.clock)).with_bearer(&self.bearer)
    }

    /// Signs a token for an organisation, or for one application of it.
    pub(crate) fn token(org: &str, app: Option<&str>) -> String {
        let claims = TokenClaims {
            org: OrgId::new(org).unwrap(),
            app: app.map(|app| ApplicationId::parse(app).unwrap()),
            permissions: None,
            issued_at: NOW,
            expires_at: NOW.after(Duration::from_secs(3_600)),
        };
        TokenSecret::new(TOKEN_SECRET).unwrap().sign(&claims).to_string()
    }

    pub(crate) async fn send(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8600");
        if !self.bearer.is_empty() {
            request = request.header("authorization", format!("Bearer {}", self.bearer));
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.router.clone().oneshot(request.body(body.into()).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        Reply { status: parts.status, headers: parts.headers, body: body.collect().await.unwrap().to_bytes() }
    }

    async fn send_json(&self, method: Method, path: &str, body: &Value) -> Reply {
        self.send(
            method,
            &format!("/api/v1{path}"),
            &[("content-type", "application/json")],
            body.to_string(),
        )
        .await
    }

    pub(crate) async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, &format!("/api/v1{path}"), &[], Body::empty()).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Reply {
        self.send_json(Method::POST, path, &body).await
    }

    /// Posts under an idempotency key.
    pub(crate) async fn post_as(&self, key: &str, path: &str, body: Value) -> Reply {
        let headers = [("content-type", "application/json"), ("idempotency-key", key)];
        self.send(Method::POST, &format!("/api/v1{path}"), &headers, body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> Reply {
        self.send_json(Method::PUT, path, &body).await
    }

    pub(crate) async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send_json(Method::PATCH, path, &body).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, &format!("/api/v1{path}"), &[], Body::empty()).await
    }

    /// Creates an application with this uid and returns its id.
    pub(crate) async fn app(&self, uid: &str) -> String {
        let created = self.post("/app", json!({ "name": uid, "uid": uid })).await.json(201);
        created["id"].as_str().unwrap().to_owned()
    }

    /// Creates an endpoint of the application `shop` with this uid and returns its id.
    pub(crate) async fn endpoint(&self, uid: &str) -> String {
        let body = json!({ "url": format!("https://{uid}.example/hook"), "uid": uid });
        let created = self.post("/app/shop/endpoint", body).await.json(201);
        created["id"].as_str().unwrap().to_owned()
    }

    /// Publishes a message to the application `shop` and returns its id.
    pub(crate) async fn message(&self, event_type: &str) -> String {
        let body = json!({ "eventType": event_type, "payload": { "n": 1 } });
        let published = self.post("/app/shop/msg", body).await.json(202);
        published["id"].as_str().unwrap().to_owned()
    }

    /// Claims all due events and records the same response for each, as a worker would. Returns how many there were.
    pub(crate) async fn deliver(&self, status: u16, body: &[u8]) -> usize {
        let worker = WorkerId::new("worker-a").unwrap();
        let leases = self.store.claim(&claim(&worker)).await.unwrap().leases;
        let policy = RetryPolicySpec { jitter_bps: Some(0), ..RetryPolicySpec::exponential() };
        let policy = RetryPolicy::new(policy).unwrap();
        for lease in &leases {
            let outcome = Outcome::response(status, None, body);
            let attempted = AttemptResult { outcome, duration: Duration::from_millis(128) };
            let transition = Arc::new(Transition::from_attempt(lease, attempted, &policy, RandomDraw(0)));
            let settlement = Settlement { transition, ended_ago: Duration::ZERO };
            let settled = self.store.settle(&worker, &[settlement]).await.unwrap();
            assert_eq!(settled, [SettleResult::Applied]);
        }
        leases.len()
    }
}

fn claim(worker: &WorkerId) -> ClaimRequest {
    static CLAIMS: AtomicU32 = AtomicU32::new(1);
    let number = CLAIMS.fetch_add(1, Ordering::Relaxed);
    ClaimRequest {
        id: ClaimId::random(u128::from(number).to_be_bytes()),
        owner: worker.clone(),
        lease: Duration::from_secs(60),
        limit: 1_000,
        retries_max: 1_000,
        slots: FixedSlots::per_destination(1_000).share(),
        pace_slots: PaceSlots::UNLIMITED,
        payload_bytes_max: usize::MAX,
        event_payload_bytes_max: None,
        inline_payload_bytes_max: usize::MAX,
        abandon_after: 5,
        resumed_within: Duration::from_secs(60),
    }
}
