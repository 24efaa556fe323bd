//! Lists the background operations of all applications, and stops them.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use http::request::Parts;
use http::{HeaderMap, Uri};
use posthaste_domain::OperationId;
use posthaste_store::{ListFrom, ListLimit, ListRequest, Operation, OperationState};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, Operate, ReadAll};
use crate::actions::{NoFields, read_action};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::schema_enum;
use crate::page::{foreign_cursor, parse_limit};
use crate::query::{QueryParameters, excerpt, invalid_parameter};
use crate::timestamp::Rfc3339;

schema_enum! {
    /// `recover`: sends again what failed at an endpoint. `replay_missing`: sends what an endpoint never got.
    OperationKindSchema as OperationKind { Recover, ReplayMissing }
}
schema_enum! {
    OperationStateSchema as OperationState { Running, Finished, Stopped }
}

/// A background operation of an endpoint, with its progress.
#[derive(Serialize, ToSchema)]
#[schema(as = Operation)]
pub(crate) struct OperationBody {
    #[schema(example = "qtask_0000000000000001")]
    operation_id: String,
    #[schema(value_type = OperationKindSchema)]
    kind: &'static str,
    #[schema(value_type = OperationStateSchema)]
    state: &'static str,
    #[schema(example = "app_0000000000000003")]
    app_id: String,
    #[schema(example = "ep_0000000000000011")]
    endpoint_id: String,
    /// The operation examines messages that were published from this time on.
    #[schema(value_type = String, format = DateTime)]
    since: Rfc3339,
    /// The operation examines messages that were published before this time.
    #[schema(value_type = String, format = DateTime)]
    until: Rfc3339,
    /// The number of events that the operation sends per second at most.
    #[schema(example = 100)]
    rate_per_second: u32,
    /// Events or messages that the operation has examined.
    #[schema(example = 1200)]
    examined_count: u64,
    /// Events that the operation has sent again or added.
    #[schema(example = 17)]
    done_count: u64,
    /// Who started the operation.
    #[schema(example = "ops")]
    actor: String,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
}

impl From<&Operation> for OperationBody {
    fn from(operation: &Operation) -> Self {
        Self {
            operation_id: operation.id.to_string(),
            kind: operation.kind.as_str(),
            state: operation.state.as_str(),
            app_id: operation.app.to_string(),
            endpoint_id: operation.endpoint.to_string(),
            since: Rfc3339(operation.since),
            until: Rfc3339(operation.until),
            rate_per_second: operation.rate.per_second(),
            examined_count: operation.examined_count,
            done_count: operation.done_count,
            actor: operation.actor.clone(),
            created_at: Rfc3339(operation.created_at),
            updated_at: Rfc3339(operation.updated_at),
        }
    }
}

/// A page of operations.
#[derive(Serialize, ToSchema)]
#[schema(as = OperationPage)]
pub(crate) struct OperationPage {
    operations: Vec<OperationBody>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List background operations
///
/// Lists the operations of all applications, newest first, each with its progress.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/operations", tag = "Operations", operation_id = "listOperations",
    params(
        ("state" = Option<OperationStateSchema>, Query, description = "Only operations in this state"),
        ("limit" = Option<u32>, Query, description = "Maximum number of operations on the page", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the previous page"),
    ),
    responses((status = 200, description = "A page of operations", body = OperationPage)),
)]
pub(crate) async fn operations(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<OperationPage>, ApiError> {
    let parameters = QueryParameters::parse(&uri, &["state", "limit", "cursor"])?;
    let filter = parameters.get("state").map(parse_state).transpose()?;
    let limit = parameters.get("limit").map(parse_limit).transpose()?.unwrap_or_default();
    let limit = i64::try_from(limit.get()).ok().and_then(|limit| ListLimit::new(limit).ok());
    let from = parameters.get("cursor").map(|text| OperationId::parse(text).ok_or_else(foreign_cursor));
    let request = ListRequest {
        from: from.transpose()?.map_or(ListFrom::Start, ListFrom::After),
        limit: limit.expect("a page of the outbox is smaller than a list of the registry"),
    };
    let list = state.store.operations().list(filter, &request).await?;
    let next = list.items.last().filter(|_| !list.done).map(|operation| operation.id.to_string());
    Ok(Json(OperationPage { operations: list.items.iter().map(Into::into).collect(), next_cursor: next }))
}

pub(crate) fn parse_state(text: &str) -> Result<OperationState, ApiError> {
    OperationState::from_name(text).ok_or_else(|| {
        let shown = excerpt(text);
        invalid_parameter("state", format!("state must be running, finished or stopped, got {shown:?}"))
    })
}

/// Stop a background operation
///
/// Ends a running operation. What it has sent stays sent. Changes nothing if the operation has ended.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/operations/{operation_id}/stop", tag = "Operations", operation_id = "stopOperation",
    params(("operation_id" = String, Path, description = "The operation's id", example = "qtask_0000000000000001")),
    responses((status = 200, description = "The operation has ended", body = OperationBody)),
)]
pub(crate) async fn stop(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    OperationIdPath(id): OperationIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<OperationBody>, ApiError> {
    let NoFields {} = read_action(&state, &uri, &headers, body).await?;
    let operation = state.store.operations().stop(id).await?;
    tracing::info!(operation = %id, state = operation.state.as_str(), actor = caller.name, "operation stopped");
    Ok(Json((&operation).into()))
}

/// The id of an operation in a path.
pub(crate) struct OperationIdPath(OperationId);

impl<S: Send + Sync> FromRequestParts<S> for OperationIdPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await.map(|Path(text)| text);
        let text = text.unwrap_or_default();
        OperationId::parse(&text)
            .map(Self)
            .ok_or_else(|| ApiError::OperationNotFound { shown: excerpt(&text) })
    }
}
