//! Routes of event types.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use posthaste_domain::{EventTypeChange, EventTypeName};
use posthaste_store::{Answer, EventType};

use super::answer::{Post, json_answer, respond};
use super::auth::{AnyCaller, EventTypePath, Manage, OrgCaller, Read};
use super::body::{BODY_BYTES_MAX, Incoming, parse};
use super::error::RegistryError;
use super::list::{self, ListOf, PageParams, parse_list_request};
use super::params::{EventTypePathParams, IdempotencyParams};
use super::query::Params;
use super::views::{EventTypeIn, EventTypeOut, EventTypePatch, EventTypePut};
use crate::api::ApiState;

/// What iterators begin with. A name may begin with the hyphen that marks an iterator backwards.
const ITERATOR_PREFIX: &str = "name:";

/// List event types
///
/// Lists the event types of the organisation by name. Archived ones are left out unless they are asked for.
#[utoipa::path(
    get, path = "/api/v1/event-type", tag = "Event types", operation_id = "listEventTypes",
    params(
        PageParams,
        ("include_archived" = Option<bool>, Query, description = "Whether archived event types are listed too"),
        ("with_content" = Option<bool>, Query, description = "Whether schemas are shown"),
    ),
    responses((status = 200, description = "A page of event types", body = ListOf<EventTypeOut>)),
)]
pub(super) async fn list(
    State(state): State<Arc<ApiState>>,
    any: AnyCaller<Read>,
    params: Params,
) -> Result<Response, RegistryError> {
    let request =
        parse_list_request(&params, |text| EventTypeName::new(text.strip_prefix(ITERATOR_PREFIX)?).ok())?;
    let include_archived = params.bool("include_archived")?.unwrap_or(false);
    let with_content = params.bool("with_content")?.unwrap_or(false);
    let types = state.store.event_types().list(&any.caller.org, include_archived, &request).await?;
    let iterator = |event_type: &EventType| format!("{ITERATOR_PREFIX}{}", event_type.name);
    Ok(list::respond(types, iterator, |event_type| EventTypeOut::new(&event_type, with_content)))
}

/// Register an event type
///
/// Registers an event type. An archived one is registered again, with the new fields.
#[utoipa::path(
    post, path = "/api/v1/event-type", tag = "Event types", operation_id = "createEventType", params(IdempotencyParams),
    request_body = EventTypeIn,
    responses((status = 201, description = "The event type was registered", body = EventTypeOut)),
)]
pub(super) async fn create(
    State(state): State<Arc<ApiState>>,
    org: OrgCaller<Manage>,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let post = Post::read(&state, &org.caller, incoming, BODY_BYTES_MAX).await?;
    let result = async {
        let new = parse::<EventTypeIn>(&post.bytes)?.accept()?;
        let slot = post.slot(&state, created_answer);
        Ok(created_answer(&state.store.event_types().create(&org.caller.org, &new, slot.as_ref()).await?))
    };
    post.finish(&state, result.await).await
}

fn created_answer(event_type: &EventType) -> Answer {
    json_answer(StatusCode::CREATED, &EventTypeOut::new(event_type, true))
}

/// Get an event type
#[utoipa::path(
    get, path = "/api/v1/event-type/{event_type_name}", tag = "Event types", operation_id = "getEventType",
    params(EventTypePathParams),
    responses((status = 200, description = "The event type", body = EventTypeOut)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    any: AnyCaller<Read>,
    EventTypePath(name): EventTypePath,
) -> Result<Json<EventTypeOut>, RegistryError> {
    let event_type = state.store.event_types().get(&any.caller.org, &name).await?;
    Ok(Json(EventTypeOut::new(&event_type, true)))
}

/// Replace an event type
///
/// Replaces every field of an event type, or registers it.
#[utoipa::path(
    put, path = "/api/v1/event-type/{event_type_name}", tag = "Event types", operation_id = "putEventType",
    params(EventTypePathParams), request_body = EventTypePut,
    responses(
        (status = 200, description = "The event type was replaced", body = EventTypeOut),
        (status = 201, description = "The event type was registered", body = EventTypeOut),
    ),
)]
pub(super) async fn put(
    State(state): State<Arc<ApiState>>,
    org: OrgCaller<Manage>,
    EventTypePath(name): EventTypePath,
    incoming: Incoming,
) -> Result<Response, RegistryError> {
    let body = incoming.read(&state, BODY_BYTES_MAX).await?;
    let body = parse::<EventTypePut>(&body.bytes)?;
    let is_archived = body.archived.unwrap_or(false);
    let put = state.store.event_types().put(&org.caller.org, &body.accept(name.clone())?).await?;
    let status = if put.is_new { StatusCode::CREATED } else { StatusCode::OK };
    let event_type = match is_archived {
        true => archive(&state, &org, &name).await?,
        false => put.value,
    };
    Ok(respond(json_answer(status, &EventTypeOut::new(&event_type, true))))
}

async fn archive(
    state: &ApiState,
    org: &OrgCaller<Manage>,
    name: &EventTypeName,
) -> Result<EventType, RegistryError> {
    let change = EventTypeChange { is_archived: Some(true), ..EventTypeChange::default() };
    Ok(state.store.event_types().update(&org.caller.org, name, &change).await?)
}

/// Change an event type
///
/// Changes the fields that the body has.
#[utoipa::path(
    patch, path = "/api/v1/event-type/{event_type_name}", tag = "Event types", operation_id = "patchEventType",
    params(EventTypePathParams), request_body = EventTypePatch,
    responses((status = 200, description = "The event type was changed", body = EventTypeOut)),
)]
pub(super) async fn patch(
    State(state): State<Arc<ApiState>>,
    org: OrgCaller<Manage>,
    EventTypePath(name): EventTypePath,
    incoming: Incoming,
) -> Result<Json<EventTypeOut>, RegistryError> {
    let body = incoming.read(&state, BODY_BYTES_MAX).await?;
    let change = parse::<EventTypePatch>(&body.bytes)?.accept()?;
    let event_type = state.store.event_types().update(&org.caller.org, &name, &change).await?;
    Ok(Json(EventTypeOut::new(&event_type, true)))
}

/// Archive an event type
///
/// Hides an event type. Endpoints that subscribe to it still get its messages. With `expunge`, it is removed for good.
#[utoipa::path(
    delete, path = "/api/v1/event-type/{event_type_name}", tag = "Event types", operation_id = "deleteEventType",
    params(EventTypePathParams, ("expunge" = Option<bool>, Query, description = "Whether it is removed for good")),
    responses((status = 204, description = "The event type was archived or removed")),
)]
pub(super) async fn delete(
    State(state): State<Arc<ApiState>>,
    org: OrgCaller<Manage>,
    EventTypePath(name): EventTypePath,
    params: Params,
) -> Result<StatusCode, RegistryError> {
    match params.bool("expunge")?.unwrap_or(false) {
        true => state.store.event_types().expunge(&org.caller.org, &name).await?,
        false => drop(archive(&state, &org, &name).await?),
    }
    Ok(StatusCode::NO_CONTENT)
}
