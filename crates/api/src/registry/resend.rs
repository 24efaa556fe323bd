//! Routes that send messages to one endpoint: again, or as an example.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::StatusCode;
use posthaste_domain::{EventId, EventTypeName, MessageSpec, OrgId};
use posthaste_store::{Answer, PublishRequest, StoreError};
use serde::Serialize;
use serde_json::{Value, json};
use utoipa::ToSchema;

use super::answer::{Post, json_answer, respond, respond_again};
use super::auth::{AppCaller, EndpointPath, MessagePath, Resend};
use super::body::{BODY_BYTES_MAX, Incoming, parse};
use super::error::RegistryError;
use super::messages::{
    accept_message, body_bytes_max, kept_answer, object_bytes, published_answer, restore_payload, traceparent,
};
use super::params::{EndpointPathParams, IdempotencyParams, MessageEndpointPathParams};
use super::views::{ExampleIn, MessageOut};
use crate::api::ApiState;

/// An object without fields.
#[derive(Serialize, ToSchema)]
#[schema(as = EmptyResponse)]
pub(super) struct EmptyOut {}

/// Send a message again
///
/// Sends a message to an endpoint again, whatever the endpoint's event types and channels. A failed message is retried as a
/// new one; otherwise one more attempt is made.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint/{endpoint_id}/resend", tag = "Attempts", operation_id = "resendMessage",
    params(MessageEndpointPathParams, IdempotencyParams),
    responses((status = 202, description = "The message is due now", body = EmptyOut)),
)]
pub(super) async fn resend(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Resend>,
    MessagePath(message): MessagePath,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let post = Post::read(&state, &app.caller, incoming, BODY_BYTES_MAX).await?;
    let result = async {
        let slot = post.slot(&state, |_: &EventId| resent_answer());
        let messages = state.store.messages();
        messages.resend(app.scope(), &message, &endpoint, &app.caller.name, slot.as_ref()).await?;
        tracing::info!(message_id = %message, %endpoint, actor = app.caller.name, "message sent again");
        Ok(resent_answer())
    };
    post.finish(&state, result.await).await
}

fn resent_answer() -> Answer {
    json_answer(StatusCode::ACCEPTED, &EmptyOut {})
}

/// Send an example
///
/// Publishes an example of an event type to one endpoint, whatever its event types and channels. The payload is an example of
/// the event type's newest schema, if it has some.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/send-example", tag = "Endpoints", operation_id = "sendExample",
    params(EndpointPathParams, IdempotencyParams), request_body = ExampleIn<'_>,
    responses((status = 202, description = "The example is stored", body = MessageOut)),
)]
pub(super) async fn send_example(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Resend>,
    EndpointPath(endpoint): EndpointPath,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let traceparent = traceparent(&incoming.headers);
    let post = Post::read(&state, &app.caller, incoming, body_bytes_max(&state)).await?;
    let result = async {
        let body: ExampleIn<'_> = parse(&post.bytes)?;
        let payload = match body.payload {
            Some(payload) => object_bytes(payload, &post.bytes)?,
            None => example_payload(&state, &app.caller.org, &body).await?,
        };
        let spec =
            MessageSpec { event_type: body.event_type, payload, traceparent, ..MessageSpec::default() };
        let request = PublishRequest {
            only_endpoint: Some(endpoint),
            stored_by: app.caller.key_name.clone(),
            answer: post.slot(&state, kept_answer),
            ..PublishRequest::new(app.caller.org.clone(), app.app.clone(), accept_message(&state, spec)?)
        };
        Ok(published_answer(&state.store.messages().publish(&request).await?, true))
    };
    match result.await {
        Ok(answer) => Ok(respond(answer)),
        Err(error) => {
            let kept = post.find_kept(&state, error).await?;
            Ok(respond_again(restore_payload(&state, app.scope(), kept, true).await))
        }
    }
}

/// Returns an example of the newest schema of an event type, or a general one.
async fn example_payload(
    state: &ApiState,
    org: &OrgId,
    body: &ExampleIn<'_>,
) -> Result<Bytes, RegistryError> {
    let name =
        EventTypeName::new(&body.event_type).map_err(|error| RegistryError::in_body("eventType", error))?;
    let schemas = match state.store.event_types().get(org, &name).await {
        Ok(event_type) => event_type.settings.schemas,
        Err(StoreError::EventTypeNotFound { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let index = usize::try_from(body.example_index.unwrap_or(0)).unwrap_or(usize::MAX);
    let example = schemas.as_deref().and_then(|schemas| schema_example(schemas, index));
    let example = example.unwrap_or_else(|| json!({ "type": name.as_str(), "example": true }));
    Ok(example.to_string().into())
}

/// Returns an example of the newest version in `{"1": {"examples": [{…}]}}`, which must be an object.
fn schema_example(schemas: &str, index: usize) -> Option<Value> {
    let schemas: serde_json::Map<String, Value> = serde_json::from_str(schemas).ok()?;
    let newest = schemas.iter().max_by_key(|(version, _)| version.parse::<u64>().unwrap_or(0));
    let example = newest?.1.get("examples")?.get(index)?;
    example.is_object().then(|| example.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_example_comes_from_the_newest_schema() {
        let schemas = r#"{"2":{"examples":[{"a":2}]},"10":{"examples":[{"a":10},{"a":11},7]}}"#;
        assert_eq!(schema_example(schemas, 0), Some(json!({ "a": 10 })));
        assert_eq!(schema_example(schemas, 1), Some(json!({ "a": 11 })));
        assert_eq!(schema_example(schemas, 2), None, "a payload is an object");
        assert_eq!(schema_example(schemas, 3), None);
        assert_eq!(schema_example("{}", 0), None);
    }
}
