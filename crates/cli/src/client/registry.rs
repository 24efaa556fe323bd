//! The registry's API: applications, endpoints, event types and messages. Its names are in camelCase.

use http::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;

use super::responses::{Destination, ListPage};
use super::{ApiClient, ApiPath, ApiResponse, ClientError};

/// The calls of the registry's API. A bad request is blamed on the arguments of the command, from which every request is
/// composed.
pub(crate) struct RegistryClient<'a>(pub(crate) &'a ApiClient);

impl RegistryClient<'_> {
    pub(crate) async fn get(
        &self,
        path: &[&str],
        query: &[(&str, &str)],
    ) -> Result<ApiResponse, ClientError> {
        self.0.get_from(ApiPath::Registry, path, query).await.map_err(ClientError::blame_arguments)
    }

    /// Sends a POST request under a key of its own, and repeats it while its result is unknown.
    pub(crate) async fn post(&self, path: &[&str], body: &Value) -> Result<ApiResponse, ClientError> {
        self.post_bytes(path, body.to_string().into_bytes()).await
    }

    /// As [`post`](Self::post), with a body whose bytes matter.
    pub(crate) async fn post_bytes(&self, path: &[&str], body: Vec<u8>) -> Result<ApiResponse, ClientError> {
        let response = self.0.post_repeatedly(ApiPath::Registry, path, Some(body)).await;
        response.map_err(ClientError::blame_arguments)
    }

    pub(crate) async fn patch(&self, path: &[&str], body: &Value) -> Result<ApiResponse, ClientError> {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub(crate) async fn delete(&self, path: &[&str]) -> Result<ApiResponse, ClientError> {
        self.send(Method::DELETE, path, None).await
    }

    async fn send(
        &self,
        method: Method,
        path: &[&str],
        body: Option<&Value>,
    ) -> Result<ApiResponse, ClientError> {
        let url = self.0.server.resource(ApiPath::Registry, path, &[]);
        let request = self.0.request(method, url, body.map(|body| body.to_string().into_bytes()));
        self.0.send(request).await.map_err(ClientError::blame_arguments)
    }
}

/// One page of a list of the registry.
#[derive(Debug, Deserialize)]
pub(crate) struct RegistryPage<T> {
    data: Vec<T>,
    /// The cursor of the next page: the server names one for the last page too.
    #[serde(default)]
    iterator: Option<String>,
    #[serde(default)]
    done: bool,
}

impl<T: DeserializeOwned> ListPage for RegistryPage<T> {
    type Item = T;

    const API: ApiPath = ApiPath::Registry;
    const CURSOR_PARAMETER: &'static str = "iterator";

    fn items(&self) -> &[T] {
        &self.data
    }

    fn next_cursor(&self) -> Option<&String> {
        self.iterator.as_ref().filter(|_| !self.done)
    }
}

impl<T> RegistryPage<T> {
    pub(crate) fn items_mut(&mut self) -> &mut [T] {
        &mut self.data
    }
}

/// An application.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ApplicationItem {
    pub(crate) id: String,
    pub(crate) uid: Option<String>,
    pub(crate) name: String,
    pub(crate) throttle_rate: Option<u32>,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) created_at: Option<String>,
    pub(crate) updated_at: Option<String>,
}

/// An endpoint, alone, in a list, or beside the message that it gets.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct EndpointItem {
    pub(crate) id: String,
    pub(crate) uid: Option<String>,
    pub(crate) url: String,
    pub(crate) description: String,
    pub(crate) disabled: bool,
    pub(crate) disabled_reason: Option<String>,
    pub(crate) disabled_at: Option<String>,
    pub(crate) event_types: Option<Vec<String>>,
    pub(crate) channels: Option<Vec<String>>,
    pub(crate) throttle_rate: Option<u32>,
    pub(crate) ordering: String,
    pub(crate) metadata: BTreeMap<String, String>,
    pub(crate) created_at: Option<String>,
    pub(crate) updated_at: Option<String>,
    /// The state of the message's event, if the endpoint is listed beside a message.
    pub(crate) status_text: String,
    pub(crate) next_attempt: Option<String>,
    /// The operator's view of the endpoint, which other responses have; None if the API key does not permit it.
    #[serde(skip)]
    pub(crate) destination: Option<Destination>,
}

/// What a receiver verifies with: a secret, or a public key.
#[derive(Deserialize)]
pub(crate) struct SecretItem {
    pub(crate) key: String,
}

/// An event type.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct EventTypeItem {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) archived: bool,
    pub(crate) deprecated: bool,
    pub(crate) group_name: Option<String>,
    pub(crate) created_at: Option<String>,
    pub(crate) updated_at: Option<String>,
}

/// A message, without its payload.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MessageItem {
    pub(crate) id: String,
    pub(crate) event_id: Option<String>,
    pub(crate) event_type: String,
    pub(crate) channels: Option<Vec<String>>,
    pub(crate) tags: Option<Vec<String>>,
    pub(crate) timestamp: Option<String>,
    pub(crate) deliver_at: Option<String>,
}

/// One attempt to deliver a message to an endpoint.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct MessageAttempt {
    pub(crate) id: String,
    pub(crate) endpoint_id: String,
    pub(crate) url: String,
    pub(crate) status_text: String,
    /// 0 if there was no response.
    pub(crate) response_status_code: u16,
    pub(crate) response_duration_ms: u64,
    pub(crate) response: String,
    pub(crate) timestamp: Option<String>,
}

/// A background operation with its progress, which the response to its start omits.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct OperationItem {
    pub(crate) id: String,
    pub(crate) status: String,
    pub(crate) task: String,
    pub(crate) data: OperationProgress,
}

/// The progress of an operation.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct OperationProgress {
    pub(crate) endpoint_id: String,
    pub(crate) examined: u64,
    pub(crate) sent: u64,
    pub(crate) rate_per_second: u32,
    pub(crate) state: String,
    pub(crate) since: Option<String>,
    pub(crate) until: Option<String>,
}
