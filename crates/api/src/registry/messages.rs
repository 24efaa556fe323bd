//! Routes of messages.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use posthaste_domain::{
    ApplicationRef, InvalidEvent, InvalidMessage, InvalidSubscription, MessageId, MessageRef, MessageSpec,
    NewApplication, NewMessage, TraceParent,
};
use posthaste_store::{Answer, AppScope, MessageFilter, Publication, PublishRequest, StoreError};
use serde_json::Value;

use super::answer::{Post, json_answer, respond, respond_again};
use super::auth::{AppCaller, EndpointPath, MessagePath, Publish, ReadMessages};
use super::body::{Incoming, parse};
use super::error::RegistryError;
use super::list::{self, ListOf, PageParams, parse_list_request};
use super::params::{
    AppPathParams, ContentParams, EndpointPathParams, ExpandedParams, IdempotencyParams, MessageFilterParams,
    MessagePathParams,
};
use super::query::{Params, parse_time};
use super::settings::store_now;
use super::status::MessageStatus;
use super::views::{EndpointMessageOut, MessageEndpointOut, MessageIn, MessageOut};
use crate::api::ApiState;

/// Maximum size of everything in a message but its payload.
const OVERHEAD_BYTES: usize = 64 << 10;

/// List messages
///
/// Lists the messages of an application, newest first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg", tag = "Messages", operation_id = "listMessages",
    params(AppPathParams, PageParams, MessageFilterParams),
    responses((status = 200, description = "A page of messages", body = ListOf<MessageOut>)),
)]
pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadMessages>,
    params: Params,
) -> Result<Response, RegistryError> {
    let request = parse_list_request(&params, MessageId::parse)?;
    let with_content = parse_with_content(&params)?;
    let filter = parse_filter(&params)?;
    let messages = state.store.messages().list(app.scope(), &filter, &request, with_content).await?;
    Ok(list::respond(
        messages,
        |message| message.id.to_string(),
        |message| MessageOut::new(&message, with_content),
    ))
}

/// Payloads are shown unless the caller declines: older SDKs expect them.
pub(super) fn parse_with_content(params: &Params) -> Result<bool, RegistryError> {
    Ok(params.bool("with_content")?.unwrap_or(true))
}

fn parse_filter(params: &Params) -> Result<MessageFilter, RegistryError> {
    Ok(MessageFilter {
        event_types: params.event_types()?,
        channel: params.channel()?,
        tag: params.get("tag").map(str::to_owned),
        before: params.time("before")?,
        after: params.time("after")?,
    })
}

/// Publish a message
///
/// Publishes a message to all endpoints of the application that are enabled and match its event type and channels. It is
/// durable when the response arrives. A message without a matching endpoint is stored too. The event type need not be
/// registered.
#[utoipa::path(
    post, path = "/api/v1/app/{app_id}/msg", tag = "Messages", operation_id = "publishMessage",
    params(AppPathParams, ContentParams, IdempotencyParams), request_body = MessageIn<'_>,
    responses((status = 202, description = "The message is stored", body = MessageOut)),
)]
pub(super) async fn publish(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Publish>,
    params: Params,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let with_content = parse_with_content(&params)?;
    let traceparent = traceparent(&incoming.headers);
    let post = Post::read(&state, &app.caller, incoming, body_bytes_max(&state)).await?;
    let result = async {
        let body: MessageIn<'_> = parse(&post.bytes)?;
        let submission = Submission::accept(&state, body, &post.bytes, traceparent).await?;
        let request = submission.into_request(&app, post.slot(&state, kept_answer));
        Ok(published_answer(&state.store.messages().publish(&request).await?, with_content))
    };
    match result.await {
        Err(RegistryError::Store(StoreError::ApplicationNotFound { app: uid }))
            if names_other_app(&post.bytes) =>
        {
            let message = format!("there is no application {uid:?}, and the uid of this one is another");
            Err(RegistryError::in_fields(&["body", "application", "uid"], message))
        }
        Ok(answer) => Ok(respond(answer)),
        Err(error) => {
            let kept = post.find_kept(&state, error).await?;
            Ok(respond_again(restore_payload(&state, app.scope(), kept, with_content).await))
        }
    }
}

/// Returns whether a body brings along an application. If so and the application of the path does not exist, their uids differ.
fn names_other_app(body: &[u8]) -> bool {
    parse::<MessageIn<'_>>(body).is_ok_and(|body| body.application.is_some())
}

pub(super) fn body_bytes_max(state: &ApiState) -> usize {
    state.enqueue_settings.payload_bytes_max.saturating_add(OVERHEAD_BYTES)
}

pub(super) fn published_answer(publication: &Publication, with_content: bool) -> Answer {
    json_answer(StatusCode::ACCEPTED, &MessageOut::new(&publication.message, with_content))
}

/// The answer as it is kept: without the payload, which the store has already.
pub(super) fn kept_answer(publication: &Publication) -> Answer {
    published_answer(publication, false)
}

/// Adds the payload to a kept answer, if the caller wants it and the message still exists.
pub(super) async fn restore_payload(
    state: &ApiState,
    scope: AppScope<'_>,
    kept: Answer,
    with_content: bool,
) -> Answer {
    let id = serde_json::from_slice::<Value>(&kept.body).ok();
    let id = id.as_ref().and_then(|body| body["id"].as_str()).and_then(MessageId::parse);
    let (true, Some(id)) = (with_content, id) else { return kept };
    match state.store.messages().get(scope, &MessageRef::Id(id), true).await {
        Ok(message) => json_answer(StatusCode::ACCEPTED, &MessageOut::new(&message, true)),
        Err(_) => kept,
    }
}

/// Returns the trace context of a request. An invalid one is ignored, as its specification asks for.
pub(super) fn traceparent(headers: &HeaderMap) -> Option<String> {
    let text = headers.get("traceparent")?.to_str().ok()?;
    TraceParent::parse(text).map(|_| text.to_owned())
}

/// A validated message, and the application to create with it.
struct Submission {
    message: NewMessage,
    application: Option<NewApplication>,
}

impl Submission {
    async fn accept(
        state: &ApiState,
        body: MessageIn<'_>,
        bytes: &Bytes,
        traceparent: Option<String>,
    ) -> Result<Self, RegistryError> {
        let is_ignorable = |raw: &&serde_json::value::RawValue| raw.get().contains("rawPayload");
        if body.transformations_params.as_ref().is_some_and(is_ignorable) {
            let message = "raw payloads are not supported; send the payload as a JSON object";
            return Err(RegistryError::in_body("transformationsParams", message));
        }
        let deliver_in = match &body.deliver_at {
            None => Duration::ZERO,
            Some(text) => {
                let message =
                    format!("deliverAt must be a time as in 2026-01-31T11:29:00Z, got {:?}", excerpt(text));
                let at = parse_time(text).ok_or_else(|| RegistryError::in_body("deliverAt", message))?;
                at.since(store_now(state).await?)
            }
        };
        let spec = MessageSpec {
            event_type: body.event_type,
            payload: object_bytes(body.payload, bytes)?,
            uid: body.event_id,
            channels: body.channels,
            tags: body.tags.unwrap_or_default(),
            deliver_in,
            payload_retention_days: body.payload_retention_period,
            traceparent,
            ..MessageSpec::default()
        };
        let application = body.application.map(super::views::ApplicationIn::accept).transpose();
        Ok(Self { message: accept_message(state, spec)?, application: application.map_err(in_application)? })
    }

    fn into_request(
        self,
        app: &AppCaller<Publish>,
        answer: Option<posthaste_store::AnswerSlot<Publication>>,
    ) -> PublishRequest {
        // An application with another uid than that of the path is not created.
        let is_of_path = |new: &NewApplication| match &app.app {
            ApplicationRef::Uid(uid) => new.uid.as_ref() == Some(uid),
            ApplicationRef::Id(_) => false,
        };
        PublishRequest {
            create_app: self.application.filter(is_of_path),
            stored_by: app.caller.key_name.clone(),
            answer,
            ..PublishRequest::new(app.caller.org.clone(), app.app.clone(), self.message)
        }
    }
}

/// Places an error of the application in the field that holds it.
fn in_application(error: RegistryError) -> RegistryError {
    match error {
        RegistryError::Invalid(mut problem) => {
            problem.loc.insert(1, "application".to_owned());
            RegistryError::Invalid(problem)
        }
        other => other,
    }
}

fn excerpt(text: &str) -> String {
    text.chars().take(64).collect()
}

/// Returns the bytes of a payload, which must be a JSON object. They stay a slice of the body.
pub(super) fn object_bytes(
    payload: &serde_json::value::RawValue,
    body: &Bytes,
) -> Result<Bytes, RegistryError> {
    match payload.get().starts_with('{') {
        true => Ok(body.slice_ref(payload.get().as_bytes())),
        false => Err(RegistryError::in_body("payload", "payload must be a JSON object")),
    }
}

/// Validates a message. A payload that is too large has an error of its own.
pub(super) fn accept_message(state: &ApiState, spec: MessageSpec) -> Result<NewMessage, RegistryError> {
    let settings = state.enqueue_settings;
    NewMessage::accept(spec, settings.payload_bytes_max, settings.default_max_attempts).map_err(|error| {
        let field = match &error {
            InvalidMessage::Event(InvalidEvent::PayloadTooLarge { .. }) => {
                return RegistryError::TooLarge(error.to_string());
            }
            InvalidMessage::Event(InvalidEvent::Label { field: "tags", .. }) | InvalidMessage::Tags(_) => {
                "tags"
            }
            InvalidMessage::Event(_) => "payload",
            InvalidMessage::Subscription(InvalidSubscription::EventType(_)) => "eventType",
            InvalidMessage::Subscription(_) => "channels",
            InvalidMessage::Uid(_) => "eventId",
            InvalidMessage::DeliverIn(_) => "deliverAt",
            InvalidMessage::PayloadRetention(_) => "payloadRetentionPeriod",
        };
        RegistryError::in_body(field, error)
    })
}

/// Get a message
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}", tag = "Messages", operation_id = "getMessage",
    params(MessagePathParams, ContentParams),
    responses((status = 200, description = "The message", body = MessageOut)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadMessages>,
    MessagePath(message): MessagePath,
    params: Params,
) -> Result<Json<MessageOut>, RegistryError> {
    let with_content = parse_with_content(&params)?;
    let message = state.store.messages().get(app.scope(), &message, with_content).await?;
    Ok(Json(MessageOut::new(&message, with_content)))
}

/// Remove the payload of a message
///
/// Removes the payload for good. Pending events of the message are cancelled.
#[utoipa::path(
    delete, path = "/api/v1/app/{app_id}/msg/{msg_id}/content", tag = "Messages", operation_id = "expungeMessage",
    params(MessagePathParams),
    responses((status = 204, description = "The payload was removed")),
)]
pub(super) async fn expunge(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<Publish>,
    MessagePath(message): MessagePath,
) -> Result<StatusCode, RegistryError> {
    state.store.messages().expunge(app.scope(), &message, &app.caller.name).await?;
    tracing::info!(message_id = %message, actor = app.caller.name, "payload of a message removed");
    Ok(StatusCode::NO_CONTENT)
}

/// List the endpoints of a message
///
/// Lists the endpoints that get a message, each with the state of its event.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/endpoint", tag = "Messages", operation_id = "listMessageEndpoints",
    params(MessagePathParams, PageParams, ExpandedParams),
    responses((status = 200, description = "A page of endpoints", body = ListOf<MessageEndpointOut>)),
)]
pub(super) async fn endpoints(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadMessages>,
    MessagePath(message): MessagePath,
    params: Params,
) -> Result<Response, RegistryError> {
    let request = parse_list_request(&params, posthaste_domain::EndpointId::parse)?;
    let is_expanded = params.bool("expanded_statuses")?.unwrap_or(false);
    let endpoints = state.store.messages().destinations(app.scope(), &message, &request).await?;
    let view = |destination| MessageEndpointOut::new(&destination, is_expanded);
    Ok(list::respond(endpoints, |destination| destination.endpoint.id.to_string(), view))
}

/// List the messages of an endpoint
///
/// Lists the messages that an endpoint gets, newest first, each with the state of its event.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/endpoint/{endpoint_id}/msg", tag = "Messages", operation_id = "listEndpointMessages",
    params(
        EndpointPathParams, PageParams, MessageFilterParams, ExpandedParams,
        ("status" = Option<i64>, Query, description = "Only messages with this status. A page may then have fewer items", minimum = 0, maximum = 4),
    ),
    responses((status = 200, description = "A page of messages", body = ListOf<EndpointMessageOut>)),
)]
pub(super) async fn of_endpoint(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadMessages>,
    EndpointPath(endpoint): EndpointPath,
    params: Params,
) -> Result<Json<ListOf<EndpointMessageOut>>, RegistryError> {
    let request = parse_list_request(&params, MessageId::parse)?;
    let (with_content, filter) = (parse_with_content(&params)?, parse_filter(&params)?);
    let is_expanded = params.bool("expanded_statuses")?.unwrap_or(false);
    let wanted = parse_status(&params)?;
    let messages =
        state.store.messages().of_endpoint(app.scope(), &endpoint, &filter, &request, with_content).await?;
    Ok(Json(list::page(
        messages,
        |item| item.message.id.to_string(),
        |item| {
            let status = MessageStatus::of_event(&item.event, is_expanded);
            let is_wanted = wanted.is_none_or(|wanted| wanted == status);
            is_wanted.then(|| EndpointMessageOut::new(&item, with_content, status))
        },
    )))
}

/// Parses the filter by status.
pub(super) fn parse_status(params: &Params) -> Result<Option<MessageStatus>, RegistryError> {
    params.typed("status", "0 to 4", |text| MessageStatus::from_number(text.parse().ok()?))
}
