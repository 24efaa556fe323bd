//! The client of Posthaste's own API: one server, one API key, JSON requests and responses.
//!
//! It repeats only operator actions by itself, each under a key of its own. It never repeats another request that may have
//! reached the server: the user decides whether to repeat a command.

mod error;
mod registry;
mod responses;
mod server_url;

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE};
use http::{HeaderName, HeaderValue, Method};
use posthaste::OsRandom;
use reqwest::Request;
use serde::de::DeserializeOwned;
use url::Url;

use crate::http_client::{HttpClient, Limits};
use crate::timers::sleep;

pub(crate) use error::ClientError;
pub(crate) use registry::{
    ApplicationItem, EndpointItem, EventTypeItem, MessageAttempt, MessageItem, OperationItem, RegistryClient,
    RegistryPage, SecretItem,
};
pub(crate) use responses::{
    AcceptedEvent, ActionResult, Attempt, AuditEntry, BulkCount, BulkOperation, BulkPage, Destination,
    DestinationPage, Event, EventContent, EventPage, Hold, ListPage, Overview, ProbeResult, Worker,
    WorkerList,
};
pub(crate) use server_url::{ApiPath, ServerUrl};

/// Time limit and response size limit of one call. The largest page, of 200 events, is far below the size limit.
const LIMITS: Limits = Limits { timeout: Duration::from_secs(30), response_bytes_max: 16 * 1_024 * 1_024 };
/// Pauses before the repetitions of an operator action.
const REPETITION_PAUSES: [Duration; 3] =
    [Duration::from_millis(200), Duration::from_millis(500), Duration::from_secs(1)];
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A client of one server's API.
pub(crate) struct ApiClient {
    server: ServerUrl,
    authorization: Option<HeaderValue>,
    http: HttpClient,
}

/// The body of a successful response, as the server sent it.
#[derive(Debug, Clone)]
pub(crate) struct ApiResponse(Bytes);

impl ApiResponse {
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Parses the body from JSON.
    pub(crate) fn parse<T: DeserializeOwned>(&self) -> Result<T, ClientError> {
        serde_json::from_slice(&self.0).map_err(|error| ClientError::UnreadableResponse(error.to_string()))
    }
}

impl ApiClient {
    /// Creates a client that sends this API key, if there is one, with each request. Opens no connection yet.
    pub(crate) fn new(server: ServerUrl, key: Option<&str>) -> Result<Self, ClientError> {
        let authorization = key.map(bearer_header).transpose()?;
        Ok(Self { http: HttpClient::new(server.as_url(), LIMITS), server, authorization })
    }

    /// Sends a GET request to a resource of the API. Each segment of `path` is escaped.
    pub(crate) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<ApiResponse, ClientError> {
        self.get_from(ApiPath::Outbox, path, query).await
    }

    /// Sends a GET request to a resource of one of the APIs. Each segment of `path` is escaped.
    pub(crate) async fn get_from(
        &self,
        api: ApiPath,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<ApiResponse, ClientError> {
        self.send(self.request(Method::GET, self.server.resource(api, path, query), None)).await
    }

    /// Sends a POST request to a resource of the API. Each segment of `path` is escaped.
    pub(crate) async fn post(
        &self,
        path: &[&str],
        body: Option<Vec<u8>>,
    ) -> Result<ApiResponse, ClientError> {
        self.send(self.request(Method::POST, self.server.resource(ApiPath::Outbox, path, &[]), body)).await
    }

    /// Sends a POST request that the user may repeat: the server responds to the same key and body as it did before.
    pub(crate) async fn post_idempotent(
        &self,
        path: &[&str],
        body: Vec<u8>,
        idempotency_key: &str,
    ) -> Result<ApiResponse, ClientError> {
        let key = HeaderValue::from_str(idempotency_key).map_err(|_| ClientError::InvalidIdempotencyKey)?;
        let mut request =
            self.request(Method::POST, self.server.resource(ApiPath::Outbox, path, &[]), Some(body));
        request.headers_mut().insert(IDEMPOTENCY_KEY, key);
        self.send(request).await
    }

    /// Sends an operator action. If its response was lost or the server was unavailable, repeats it under the same key, so
    /// that the server applies it once and responds as it did before.
    pub(crate) async fn act(&self, path: &[&str], body: Option<Vec<u8>>) -> Result<ApiResponse, ClientError> {
        self.post_repeatedly(ApiPath::Outbox, path, body).await
    }

    async fn post_repeatedly(
        &self,
        api: ApiPath,
        path: &[&str],
        body: Option<Vec<u8>>,
    ) -> Result<ApiResponse, ClientError> {
        let random = OsRandom::new()?;
        let key = format!("{:016x}{:016x}", random.boot_id(), random.boot_id());
        let key = HeaderValue::from_str(&key).expect("hexadecimal digits are allowed in a header");
        let mut pauses = REPETITION_PAUSES.iter();
        let mut may_be_applied = false;
        loop {
            let url = self.server.resource(api, path, &[]);
            let mut request = self.request(Method::POST, url, body.clone());
            request.headers_mut().insert(IDEMPOTENCY_KEY, key.clone());
            let result = self.send(request).await;
            may_be_applied |= result.as_ref().is_err_and(ClientError::may_be_applied);
            match (result, pauses.next()) {
                (Err(error), Some(pause)) if may_be_applied && error.is_transient() => sleep(*pause).await,
                (result, _) => return result,
            }
        }
    }

    fn request(&self, method: Method, url: Url, body: Option<Vec<u8>>) -> Request {
        let mut request = Request::new(method, url);
        let headers = request.headers_mut();
        headers.insert(ACCEPT, JSON);
        if let Some(authorization) = &self.authorization {
            headers.insert(AUTHORIZATION, authorization.clone());
        }
        if body.is_some() {
            headers.insert(CONTENT_TYPE, JSON);
        }
        *request.body_mut() = body.map(Into::into);
        request
    }

    async fn send(&self, request: Request) -> Result<ApiResponse, ClientError> {
        let response = self.http.send(request).await;
        let (head, body) =
            response.map_err(|error| ClientError::from_http(error, &self.server))?.into_parts();
        if head.status.is_success() {
            return Ok(ApiResponse(body));
        }
        Err(match responses::parse_error(&body) {
            Some((code, message)) => ClientError::Rejected { status: head.status, code, message },
            None => ClientError::NotPosthaste { server: self.server.to_string(), status: head.status },
        })
    }
}

fn bearer_header(key: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(&format!("Bearer {key}")).map_err(|_| ClientError::InvalidKey)?;
    value.set_sensitive(true);
    Ok(value)
}
