//! A small client of our own API: one server, one key, JSON in and out.
//!
//! HTTP/1.1 over TCP, or TLS for `https`. Connections are kept and used again, nothing is ever sent twice: a request
//! that may have arrived is the person's to repeat. Every request is bounded in time, every answer in size.

mod answers;
mod connection;
mod error;
mod patience;
mod server;

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST, USER_AGENT};
use http::{HeaderValue, Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full, Limited};
use serde::de::DeserializeOwned;

pub(crate) use answers::{Accepted, Action, Attempt, Event, Overview, Page, SettleResult};
pub(crate) use error::ClientError;
pub(crate) use patience::{pause, within};
pub(crate) use server::Server;

use connection::{Connection, Dialer};

/// For one request as a whole, from the name lookup to the last byte.
const TIMEOUT: Duration = Duration::from_secs(30);
/// A page of 200 events stays far below.
const ANSWER_BYTES_MAX: usize = 16 * 1_024 * 1_024;

pub(crate) struct Client {
    server: Server,
    authorization: Option<HeaderValue>,
    dialer: Dialer,
    idle: Mutex<Vec<Connection>>,
}

/// What the server said to a request that it granted, as it came.
#[derive(Debug, Clone)]
pub(crate) struct Answer(Bytes);

impl Answer {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.0).map_err(|error| ClientError::Unreadable(error.to_string()))
    }
}

impl Client {
    pub(crate) fn new(server: Server, key: Option<&str>) -> Result<Self, ClientError> {
        let authorization = key.map(bearer).transpose()?;
        Ok(Self { dialer: Dialer::to(&server), server, authorization, idle: Mutex::default() })
    }

    /// `path` is what follows `/v1/webhook-outbox/`; each part is escaped.
    pub(crate) async fn get(&self, path: &[&str], query: &[(&str, &str)]) -> Result<Answer, ClientError> {
        self.call(Method::GET, self.server.target(path, query), None, None).await
    }

    pub(crate) async fn post(&self, path: &[&str], body: Option<Vec<u8>>) -> Result<Answer, ClientError> {
        self.call(Method::POST, self.server.target(path, &[]), body, None).await
    }

    /// A POST that may be repeated: the server answers the same key and body as it did the first time.
    pub(crate) async fn post_once(
        &self,
        path: &[&str],
        body: Vec<u8>,
        idempotency_key: &str,
    ) -> Result<Answer, ClientError> {
        let key = HeaderValue::from_str(idempotency_key).map_err(|_| ClientError::IdempotencyKey)?;
        self.call(Method::POST, self.server.target(path, &[]), Some(body), Some(key)).await
    }

    async fn call(
        &self,
        method: Method,
        target: String,
        body: Option<Vec<u8>>,
        idempotency_key: Option<HeaderValue>,
    ) -> Result<Answer, ClientError> {
        let request = self.request(method, &target, body, idempotency_key)?;
        let answered = within(TIMEOUT, self.exchange(request)).await;
        let (status, answer) =
            answered.ok_or_else(|| ClientError::Silent(self.server.to_string(), TIMEOUT))??;
        if status.is_success() { Ok(Answer(answer)) } else { Err(self.refusal(status, &answer)) }
    }

    fn request(
        &self,
        method: Method,
        target: &str,
        body: Option<Vec<u8>>,
        idempotency_key: Option<HeaderValue>,
    ) -> Result<Request<Full<Bytes>>, ClientError> {
        let mut request = Request::builder()
            .method(method)
            .uri(target)
            .header(HOST, self.server.authority())
            .header(ACCEPT, "application/json")
            .header(USER_AGENT, concat!("posthaste/", env!("CARGO_PKG_VERSION")));
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        if let Some(key) = idempotency_key {
            request = request.header("idempotency-key", key);
        }
        if body.is_some() {
            request = request.header(CONTENT_TYPE, "application/json");
        }
        let body = Full::new(body.map(Bytes::from).unwrap_or_default());
        request.body(body).map_err(|error| ClientError::Server(self.server.to_string(), error.to_string()))
    }

    async fn exchange(&self, request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), ClientError> {
        let mut connection = match self.idle_connection().await {
            Some(connection) => connection,
            None => self.dialer.connect(&self.server).await?,
        };
        let broken = |reason: String| ClientError::Broken(self.server.to_string(), reason);
        let response = connection.send_request(request).await.map_err(|error| broken(error.to_string()))?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        let body = body.map_err(|error| broken(error.to_string()))?.to_bytes();
        self.lock_idle().push(connection);
        Ok((status, body))
    }

    /// One that the server has not closed meanwhile.
    async fn idle_connection(&self) -> Option<Connection> {
        loop {
            let mut connection = self.lock_idle().pop()?;
            if connection.ready().await.is_ok() {
                return Some(connection);
            }
        }
    }

    fn lock_idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refusal(&self, status: StatusCode, answer: &[u8]) -> ClientError {
        match answers::refusal(answer) {
            Some((code, message)) => ClientError::Refused { status, code, message },
            None => ClientError::NotPosthaste { server: self.server.to_string(), status },
        }
    }
}

fn bearer(key: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ClientError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}
