//! Bulk operations on dead letters: requeue, cancel or discard all that a filter selects. The store keeps each operation, and
//! the workers carry it on.

mod request;

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::{FromRequestParts, Path, State};
use axum::response::{IntoResponse, Response};
use http::request::Parts;
use http::{HeaderMap, StatusCode, Uri};
use posthaste_domain::{BulkId, DestinationUrl, FailureKind};
use posthaste_store::{
    BulkCount, BulkFilter, BulkOperation, ListFrom, ListLimit, ListRequest, NewBulkOperation, StoreError,
};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, Operate, ReadAll};
use crate::actions::{NoFields, read_action};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::schema_enum;
use crate::filter::Place;
use crate::idempotency::{self, IdempotencyKey};
use crate::operations::parse_state;
use crate::page::{foreign_cursor, parse_limit};
use crate::query::{QueryParameters, excerpt};
use crate::timestamp::Rfc3339;
use request::BulkRequest;

schema_enum! {
    /// `requeue`: makes failed events pending, due now, with all their attempts. `cancel`: changes their failure kind to
    /// `cancelled`. `discard`: removes them for good.
    BulkActionSchema as BulkAction { Requeue, Cancel, Discard }
}

/// The number of dead letters that a filter selects.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkCount)]
pub(crate) struct BulkCountBody {
    #[schema(example = 273)]
    matched_count: u64,
    /// False if there are more: counting ends at two million.
    is_exact: bool,
}

impl From<BulkCount> for BulkCountBody {
    fn from(count: BulkCount) -> Self {
        Self { matched_count: count.count, is_exact: count.is_exact }
    }
}

/// The dead letters on which the operation acts: those that meet every condition. A null condition selects all.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkFilter)]
pub(crate) struct BulkFilterBody {
    /// A URL, or the id of an endpoint.
    #[schema(example = "https://shop.example/hooks")]
    destination: Option<String>,
    #[schema(example = "app_0000000000000003")]
    app: Option<String>,
    #[schema(example = "invoice.paid")]
    event_type: Option<String>,
    #[schema(value_type = Option<crate::event::FailureKindSchema>)]
    failure_kind: Option<&'static str>,
    #[schema(example = "http_5xx")]
    error_class: Option<String>,
    #[schema(value_type = Option<String>, format = DateTime)]
    since: Option<Rfc3339>,
    /// At the latest the time at which the operation started: events that fail later are left alone.
    #[schema(value_type = Option<String>, format = DateTime)]
    until: Option<Rfc3339>,
}

impl From<&BulkFilter> for BulkFilterBody {
    fn from(filter: &BulkFilter) -> Self {
        let url = filter.destination.as_ref().map(DestinationUrl::to_string);
        Self {
            destination: url.or_else(|| filter.endpoint.map(|endpoint| endpoint.to_string())),
            app: filter.app.map(|app| app.to_string()),
            event_type: filter.event_type.clone(),
            failure_kind: filter.failure_kind.map(FailureKind::as_str),
            error_class: filter.error.map(|error| error.to_string()),
            since: filter.since.map(Rfc3339),
            until: filter.until.map(Rfc3339),
        }
    }
}

/// A bulk operation with its progress.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkOperation)]
pub(crate) struct BulkOperationBody {
    #[schema(example = "bulk_0000000000000001")]
    operation_id: String,
    #[schema(value_type = BulkActionSchema)]
    action: &'static str,
    #[schema(value_type = crate::operations::OperationStateSchema)]
    state: &'static str,
    filter: BulkFilterBody,
    /// The dead letters that the filter selected when the operation started.
    #[schema(example = 273)]
    matched_count: u64,
    /// False if there were more: counting ends at two million.
    is_exact: bool,
    /// Dead letters that the operation has examined, selected or not.
    #[schema(example = 300)]
    examined_count: u64,
    /// Dead letters that the operation has requeued, cancelled or discarded.
    #[schema(example = 120)]
    done_count: u64,
    #[schema(example = 100)]
    rate_per_second: u32,
    #[schema(example = "the receiver is up again")]
    reason: Option<String>,
    /// Who started the operation.
    #[schema(example = "ops")]
    actor: String,
    /// Who stopped the operation, or null.
    stopped_by: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
}

impl From<&BulkOperation> for BulkOperationBody {
    fn from(operation: &BulkOperation) -> Self {
        Self {
            operation_id: operation.id.to_string(),
            action: operation.action.as_str(),
            state: operation.state.as_str(),
            filter: (&operation.filter).into(),
            matched_count: operation.matched.count,
            is_exact: operation.matched.is_exact,
            examined_count: operation.examined_count,
            done_count: operation.done_count,
            rate_per_second: operation.rate.per_second(),
            reason: operation.reason.clone(),
            actor: operation.actor.clone(),
            stopped_by: operation.stopped_by.clone(),
            created_at: Rfc3339(operation.created_at),
            updated_at: Rfc3339(operation.updated_at),
        }
    }
}

/// A page of bulk operations.
#[derive(Serialize, ToSchema)]
#[schema(as = BulkOperationPage)]
pub(crate) struct BulkOperationPage {
    operations: Vec<BulkOperationBody>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    next_cursor: Option<String>,
}

/// Requeue, cancel or discard dead letters in bulk
///
/// Starts an operation on all dead letters that the filter selects. Without `failure_kind`, cancelled events are left alone. The
/// operation is stored: it survives a restart, and any worker carries it on at its rate. An event that fails again after it was
/// requeued is not requeued a second time. With `dry_run`, the request only counts. If a response does not arrive, repeat the
/// request with the same `Idempotency-Key`.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/bulk", tag = "Dead letters", operation_id = "startBulkOperation",
    params(
        ("Idempotency-Key" = Option<String>, Header, description = "Names this request: 1 to 255 printable ASCII characters, remembered as long as the operation. Repeating the request with the same key returns the same operation", example = "repair-17"),
    ),
    request_body(content = BulkRequest),
    responses(
        (status = 200, description = "With `dry_run`: the number of dead letters that the filter selects", body = BulkCountBody),
        (status = 202, description = "The operation has started", body = BulkOperationBody),
    ),
)]
pub(crate) async fn start(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, ApiError> {
    let key = IdempotencyKey::parse(&headers, caller.key_name())?;
    let request: BulkRequest = read_action(&state, &uri, &headers, body).await?;
    let accepted = request.accept()?;
    let filter = accepted.filter.resolve(&state, Place::Filter).await?;
    let matched = state.store.bulk().count(&filter).await?;
    if accepted.is_dry_run {
        return Ok(Json(BulkCountBody::from(matched)).into_response());
    }
    let new = NewBulkOperation {
        action: accepted.action,
        filter,
        rate: accepted.rate,
        matched,
        reason: accepted.reason.as_deref(),
        actor: &caller.name,
        key: key.as_ref().map(|key| key.stored.as_str()),
    };
    let operation = state.store.bulk().start(&new).await?;
    if !is_started_by(&operation, &new) {
        let conflict = StoreError::IdempotencyConflict { key: String::new() };
        return Err(idempotency::store_error(conflict, key));
    }
    tracing::info!(operation = %operation.id, action = operation.action.as_str(), matched = operation.matched.count,
        actor = caller.name, "bulk operation started");
    Ok((StatusCode::ACCEPTED, Json(BulkOperationBody::from(&operation))).into_response())
}

/// Returns whether the operation is that of the request, and not one that another request has started under the same key.
fn is_started_by(operation: &BulkOperation, new: &NewBulkOperation<'_>) -> bool {
    let until = new.filter.until.map_or(operation.created_at, |until| until.min(operation.created_at));
    let filter = BulkFilter { until: Some(until), ..new.filter.clone() };
    operation.action == new.action
        && operation.filter == filter
        && operation.rate == new.rate
        && operation.reason == posthaste_domain::clean_reason(new.reason)
}

/// List bulk operations
///
/// Lists the operations of all operators, newest first, each with its progress.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/bulk", tag = "Dead letters", operation_id = "listBulkOperations",
    params(
        ("state" = Option<crate::operations::OperationStateSchema>, Query, description = "Only operations in this state"),
        ("limit" = Option<u32>, Query, description = "Maximum number of operations on the page", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the previous page"),
    ),
    responses((status = 200, description = "A page of operations", body = BulkOperationPage)),
)]
pub(crate) async fn operations(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<BulkOperationPage>, ApiError> {
    let parameters = QueryParameters::parse(&uri, &["state", "limit", "cursor"])?;
    let filter = parameters.get("state").map(parse_state).transpose()?;
    let limit = parameters.get("limit").map(parse_limit).transpose()?.unwrap_or_default();
    let limit = i64::try_from(limit.get()).ok().and_then(|limit| ListLimit::new(limit).ok());
    let from = parameters.get("cursor").map(|text| BulkId::parse(text).ok_or_else(foreign_cursor));
    let request = ListRequest {
        from: from.transpose()?.map_or(ListFrom::Start, ListFrom::After),
        limit: limit.expect("a page of the outbox is smaller than a list of the registry"),
    };
    let list = state.store.bulk().list(filter, &request).await?;
    let next = list.items.last().filter(|_| !list.done).map(|operation| operation.id.to_string());
    Ok(Json(BulkOperationPage { operations: list.items.iter().map(Into::into).collect(), next_cursor: next }))
}

/// Show a bulk operation
#[utoipa::path(
    get, path = "/v1/webhook-outbox/bulk/{operation_id}", tag = "Dead letters", operation_id = "getBulkOperation",
    params(("operation_id" = String, Path, description = "The operation's id", example = "bulk_0000000000000001")),
    responses((status = 200, description = "The operation with its progress", body = BulkOperationBody)),
)]
pub(crate) async fn operation(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    BulkIdPath(id): BulkIdPath,
    uri: Uri,
) -> Result<Json<BulkOperationBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    Ok(Json((&state.store.bulk().get(id).await?).into()))
}

/// Stop a bulk operation
///
/// Ends a running operation. What it has done stays done. Changes nothing if the operation has ended.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/bulk/{operation_id}/stop", tag = "Dead letters", operation_id = "stopBulkOperation",
    params(("operation_id" = String, Path, description = "The operation's id", example = "bulk_0000000000000001")),
    responses((status = 200, description = "The operation has ended", body = BulkOperationBody)),
)]
pub(crate) async fn stop(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    BulkIdPath(id): BulkIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<BulkOperationBody>, ApiError> {
    let NoFields {} = read_action(&state, &uri, &headers, body).await?;
    let operation = state.store.bulk().stop(id, &caller.name).await?;
    tracing::info!(operation = %id, state = operation.state.as_str(), actor = caller.name, "bulk operation stopped");
    Ok(Json((&operation).into()))
}

/// The id of a bulk operation in a path.
pub(crate) struct BulkIdPath(BulkId);

impl<S: Send + Sync> FromRequestParts<S> for BulkIdPath {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let text = Path::<String>::from_request_parts(parts, state).await.map(|Path(text)| text);
        let text = text.unwrap_or_default();
        BulkId::parse(&text).map(Self).ok_or_else(|| ApiError::OperationNotFound { shown: excerpt(&text) })
    }
}
