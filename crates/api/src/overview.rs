//! Event counts of the whole outbox.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_store::Overview;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::query::QueryParameters;

/// Event counts, all from one snapshot of the store.
#[derive(Serialize, ToSchema)]
#[schema(as = Overview)]
pub(crate) struct OverviewBody {
    /// Events that are neither delivered nor failed.
    #[schema(example = 12)]
    pending_count: u64,
    /// Pending events that are due and not being sent.
    #[schema(example = 3)]
    pending_ready_count: u64,
    /// Pending events with at least one attempt.
    #[schema(example = 4)]
    retrying_count: u64,
    /// Failed events: the dead-letter queue.
    #[schema(example = 1)]
    failed_count: u64,
    /// The part of the failed events that an operator cancelled.
    #[schema(example = 0)]
    cancelled_count: u64,
    /// Delivered events that retention has not yet removed.
    #[schema(example = 2048)]
    delivered_count: u64,
    /// Pending events that wait because their destination is paused or has an open circuit, counted up to 10,000.
    #[schema(example = 0)]
    held_count: u64,
    /// Whether there are more held events than were counted.
    #[schema(example = false)]
    held_count_capped: bool,
    /// Age of the oldest held event that was counted, in whole seconds; null if no event is held.
    oldest_held_age_seconds: Option<u64>,
    /// Age of the oldest pending event in whole seconds; null if no event is pending.
    #[schema(example = 42)]
    oldest_pending_age_seconds: Option<u64>,
    /// Warnings about the instance's configuration, such as retries faster than the retry contract allows. Omitted if there
    /// are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    warnings: Option<Vec<String>>,
}

impl OverviewBody {
    fn new(overview: Overview, warnings: &[String]) -> Self {
        Self {
            pending_count: overview.pending,
            pending_ready_count: overview.pending_ready,
            retrying_count: overview.retrying,
            failed_count: overview.failed,
            cancelled_count: overview.cancelled,
            delivered_count: overview.delivered,
            held_count: overview.held.count,
            held_count_capped: overview.held.is_capped,
            oldest_held_age_seconds: overview.held.oldest_age.map(|age| age.as_secs()),
            oldest_pending_age_seconds: overview.oldest_pending_age.map(|age| age.as_secs()),
            warnings: (!warnings.is_empty()).then(|| warnings.to_vec()),
        }
    }
}

/// Count events
///
/// Counts events by state, at the time of the request.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/overview", tag = "Outbox", operation_id = "getOverview",
    responses((status = 200, description = "The counts", body = OverviewBody)),
)]
pub(crate) async fn overview(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<OverviewBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    Ok(Json(OverviewBody::new(state.store.overview().await?, &state.warnings)))
}
