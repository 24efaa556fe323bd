//! A receiver of this machine, registered as an endpoint while a command runs.

use serde_json::json;

use super::fields::Fields;
use crate::client::{ApiClient, ClientError, EndpointItem, RegistryClient, SecretItem};

/// An endpoint that this command has added, and that it deletes at its end.
pub(in crate::commands) struct Registration {
    client: ApiClient,
    app: String,
    pub(in crate::commands) endpoint_id: String,
    /// The secret that verifies the requests to the endpoint.
    pub(in crate::commands) secret: String,
}

impl Registration {
    /// Adds an endpoint with a secret that the server generates.
    pub(in crate::commands) async fn add(
        client: ApiClient,
        app: &str,
        url: &str,
        event_types: &[String],
    ) -> Result<Self, ClientError> {
        let registry = RegistryClient(&client);
        let body = Fields::default()
            .set("url", Some(url))
            .set("description", Some("posthaste listen"))
            .list("eventTypes", event_types)
            .set("metadata", Some(json!({ "registered-by": "posthaste listen" })))
            .into_body();
        let endpoint: EndpointItem = registry.post(&["app", app, "endpoint"], &body).await?.parse()?;
        let path = ["app", app, "endpoint", &endpoint.id, "secret"];
        let found = registry.get(&path, &[]).await.and_then(|response| response.parse::<SecretItem>());
        match found {
            Ok(SecretItem { key }) => {
                Ok(Self { app: app.to_owned(), endpoint_id: endpoint.id, secret: key, client })
            }
            Err(error) => {
                // Without its secret the endpoint is of no use. The first error is the one to report.
                let _ = registry.delete(&["app", app, "endpoint", &endpoint.id]).await;
                Err(error)
            }
        }
    }

    /// Deletes the endpoint. Messages that it has not received yet are cancelled.
    pub(in crate::commands) async fn remove(self) -> Result<(), ClientError> {
        let registry = RegistryClient(&self.client);
        registry.delete(&["app", &self.app, "endpoint", &self.endpoint_id]).await.map(drop)
    }
}
