//! The HTTP client of the trace exporter.
//!
//! The exporter's thread blocks on its requests, so a runtime of their own drives them. It has one thread, so that no
//! delivery waits for a collector. The end of the process does not wait for a name lookup on it.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use opentelemetry_http::{HttpError, Request, Response};
use posthaste::DedicatedRuntime;
use url::Url;

use crate::http_client::{HttpClient, Limits};

/// Largest response body that is read. Collectors send little.
const RESPONSE_BYTES_MAX: usize = 64 * 1_024;

/// The HTTP client of the exporter. It runs its requests on a runtime of their own.
pub(super) struct CollectorClient {
    http: HttpClient,
    runtime: DedicatedRuntime,
    last_error: LastError,
}

/// The reason why the last request got no response, if it got none. The exporter's own error does not contain the
/// reason.
#[derive(Debug, Clone, Default)]
pub(super) struct LastError(Arc<Mutex<Option<String>>>);

impl LastError {
    /// Removes and returns the reason. None if the last request got a response.
    pub(super) fn take(&self) -> Option<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn set(&self, error: Option<String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}

impl CollectorClient {
    /// Starts the runtime for requests to this endpoint. Each request may take as long as `timeout`.
    pub(super) fn start(endpoint: &Url, timeout: Duration) -> io::Result<Self> {
        Ok(Self {
            http: HttpClient::new(endpoint, Limits { timeout, response_bytes_max: RESPONSE_BYTES_MAX }),
            runtime: DedicatedRuntime::start("posthaste-traces")?,
            last_error: LastError::default(),
        })
    }

    /// Returns a handle to the reason why the last request failed.
    pub(super) fn last_error(&self) -> LastError {
        self.last_error.clone()
    }
}

#[async_trait]
impl opentelemetry_http::HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let (http, request) = (self.http.clone(), request.try_into()?);
        let response = self.runtime.handle().spawn(async move { http.send(request).await }).await;
        let response = response.map_err(HttpError::from).and_then(|response| Ok(response?));
        self.last_error.set(response.as_ref().err().map(ToString::to_string));
        response
    }
}

impl std::fmt::Debug for CollectorClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CollectorClient").field("http", &self.http).finish_non_exhaustive()
    }
}
