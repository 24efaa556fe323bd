//! Routes of attempts.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use posthaste_domain::{AttemptId, EndpointRef, MessageId, MessageRef};
use posthaste_store::{AttemptFilter, AttemptsOf, List, ListLimit, ListRequest, MessageView, StoreError};

use super::auth::{AppCaller, AttemptPath, EndpointPath, MessagePath, ReadMessages};
use super::error::RegistryError;
use super::list::{self, ListOf, PageParams, parse_list_request};
use super::messages::{parse_status, parse_with_content};
use super::params::{AttemptFilterParams, AttemptPathParams, EndpointPathParams, MessagePathParams};
use super::query::Params;
use super::status::MessageStatus;
use super::views::{AttemptOut, MessageOut};
use crate::api::ApiState;

/// List the attempts of a message
///
/// Lists the attempts to send a message, most recent first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/attempt/msg/{msg_id}", tag = "Attempts", operation_id = "listMessageAttempts",
    params(
        MessagePathParams, PageParams, AttemptFilterParams,
        ("endpoint_id" = Option<String>, Query, description = "Only attempts at this endpoint"),
    ),
    responses((status = 200, description = "A page of attempts", body = ListOf<AttemptOut>)),
)]
pub(super) async fn of_message(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadMessages>,
    MessagePath(message): MessagePath,
    params: Params,
) -> Result<Json<ListOf<AttemptOut>>, RegistryError> {
    list_attempts(&state, &app, AttemptsOf::Message(message), &params).await
}

/// List the attempts at an endpoint
///
/// Lists the attempts to send messages to an endpoint, most recent first.
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/attempt/endpoint/{endpoint_id}", tag = "Attempts", operation_id = "listEndpointAttempts",
    params(EndpointPathParams, PageParams, AttemptFilterParams),
    responses((status = 200, description = "A page of attempts", body = ListOf<AttemptOut>)),
)]
pub(super) async fn of_endpoint(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadMessages>,
    EndpointPath(endpoint): EndpointPath,
    params: Params,
) -> Result<Json<ListOf<AttemptOut>>, RegistryError> {
    list_attempts(&state, &app, AttemptsOf::Endpoint(endpoint), &params).await
}

async fn list_attempts(
    state: &ApiState,
    app: &AppCaller<ReadMessages>,
    of: AttemptsOf,
    params: &Params,
) -> Result<Json<ListOf<AttemptOut>>, RegistryError> {
    let mut request = parse_list_request(params, AttemptId::parse)?;
    let filter = parse_filter(params, of)?;
    let (with_content, with_msg) = (parse_with_content(params)?, params.bool("with_msg")?.unwrap_or(false));
    // An attempt has ended. Of the other states the list is empty, but its message or endpoint must exist.
    let is_possible =
        matches!(parse_status(params)?, None | Some(MessageStatus::Success | MessageStatus::Fail));
    if !is_possible {
        request = ListRequest { limit: ListLimit::new(1).expect("one is within the limits"), ..request };
    }
    let attempts = state.store.messages().attempts(app.scope(), &filter, &request).await?;
    let attempts = if is_possible { attempts } else { List::empty() };
    let messages = match with_msg {
        true => {
            read_messages(state, app, attempts.items.iter().map(|record| record.message), with_content)
                .await?
        }
        false => BTreeMap::new(),
    };
    Ok(Json(list::page(
        attempts,
        |record| record.id.to_string(),
        |record| {
            let message = messages.get(&record.message).map(|message| MessageOut::new(message, with_content));
            Some(AttemptOut::new(&record, message))
        },
    )))
}

fn parse_filter(params: &Params, of: AttemptsOf) -> Result<AttemptFilter, RegistryError> {
    let endpoint = match (&of, params.get("endpoint_id")) {
        (AttemptsOf::Message(_), Some(text)) => {
            Some(EndpointRef::parse(text).ok_or_else(|| RegistryError::no_such("endpoint", text))?)
        }
        _ => None,
    };
    let class = params.typed("status_code_class", "0, 100, 200, 300, 400 or 500", |text| {
        text.parse::<u16>().ok().filter(|class| class % 100 == 0 && *class <= 500).map(|class| class / 100)
    });
    Ok(AttemptFilter {
        endpoint,
        is_success: match parse_status(params)? {
            Some(MessageStatus::Success) => Some(true),
            Some(MessageStatus::Fail) => Some(false),
            _ => None,
        },
        status_code_class: class?,
        channel: params.channel()?,
        event_types: params.event_types()?,
        before: params.time("before")?,
        after: params.time("after")?,
        ..AttemptFilter::all(of)
    })
}

/// Reads the messages of a page of attempts, each once. A message that has been removed meanwhile is left out.
async fn read_messages(
    state: &ApiState,
    app: &AppCaller<ReadMessages>,
    ids: impl Iterator<Item = MessageId>,
    with_content: bool,
) -> Result<BTreeMap<MessageId, MessageView>, RegistryError> {
    let mut messages = BTreeMap::new();
    for id in ids {
        if messages.contains_key(&id) {
            continue;
        }
        match state.store.messages().get(app.scope(), &MessageRef::Id(id), with_content).await {
            Ok(message) => drop(messages.insert(id, message)),
            Err(StoreError::MessageNotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(messages)
}

/// Get an attempt
#[utoipa::path(
    get, path = "/api/v1/app/{app_id}/msg/{msg_id}/attempt/{attempt_id}", tag = "Attempts", operation_id = "getAttempt",
    params(AttemptPathParams),
    responses((status = 200, description = "The attempt", body = AttemptOut)),
)]
pub(super) async fn get(
    State(state): State<Arc<ApiState>>,
    app: AppCaller<ReadMessages>,
    MessagePath(message): MessagePath,
    AttemptPath(attempt): AttemptPath,
) -> Result<Json<AttemptOut>, RegistryError> {
    let record = state.store.messages().attempt(app.scope(), &message, attempt).await?;
    Ok(Json(AttemptOut::new(&record, None)))
}
