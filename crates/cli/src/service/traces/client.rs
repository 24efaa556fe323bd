//! The way to the collector: HTTP, or HTTPS under the authorities that the system trusts.
//!
//! The exporter's thread blocks on its requests, so they are driven by a runtime of their own. It has one thread, which
//! no delivery waits for, and the end of the process does not wait for a name that is still being looked up.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use posthaste_engine::{TokioClock, within};
use rustls::{ClientConfig, RootCertStore};

use posthaste::DedicatedRuntime;

/// Largest answer that is read; a collector has little to say.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// A connection that is not used for so long is closed.
const IDLE_MAX: Duration = Duration::from_secs(30);

type Https = HttpsConnector<HttpConnector>;

pub(super) struct CollectorClient {
    client: Client<Https, Full<Bytes>>,
    runtime: DedicatedRuntime,
    within: Duration,
    trouble: Trouble,
}

/// Why the last request brought no answer. The exporter only says that there was none.
#[derive(Debug, Clone, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<String>>>);

#[derive(Debug, thiserror::Error)]
#[error("no answer within {0:?}")]
struct NoAnswer(Duration);

impl Trouble {
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn is(&self, trouble: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }
}

impl CollectorClient {
    /// Each request may take `within`, from the lookup of the name to the end of the answer.
    pub(super) fn start(within: Duration) -> io::Result<Self> {
        let client = Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_MAX)
            .build(connector());
        Ok(Self {
            client,
            runtime: DedicatedRuntime::start("posthaste-traces")?,
            within,
            trouble: Trouble::default(),
        })
    }

    pub(super) fn trouble(&self) -> Trouble {
        self.trouble.clone()
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (limit, exchanged) = (self.within, exchange(self.client.clone(), request));
        let answer = self.runtime.handle().spawn(async move {
            let clock = TokioClock::start();
            within(&clock, limit, exchanged).await.unwrap_or_else(|| Err(NoAnswer(limit).into()))
        });
        let answer = answer.await.map_err(HttpError::from).flatten();
        self.trouble.is(answer.as_ref().err().map(|error| in_full(&**error)));
        answer
    }
}

async fn exchange(
    client: Client<Https, Full<Bytes>>,
    request: Request<Bytes>,
) -> Result<Response<Bytes>, HttpError> {
    let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
    let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
    Ok(Response::from_parts(head, body))
}

fn connector() -> Https {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
    let tls = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider supports the default versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http().enable_http1().build()
}

/// With its causes: the outermost alone says little more than that something went wrong.
fn in_full(error: &dyn std::error::Error) -> String {
    std::iter::successors(Some(error), |error| error.source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}

impl fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CollectorClient").field("within", &self.within).finish_non_exhaustive()
    }
}
