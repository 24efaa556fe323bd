//! The outbox at a glance.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_store::Overview;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Allowed, Reading};
use crate::api::Service;
use crate::error::ApiError;
use crate::query::Parameters;

/// Counts at one snapshot of the store.
#[derive(Serialize, ToSchema)]
#[schema(as = Overview)]
pub(crate) struct OverviewBody {
    /// Events that are neither delivered nor failed.
    #[schema(example = 12)]
    pending_count: u64,
    /// Pending, due, and not being sent.
    #[schema(example = 3)]
    pending_ready_count: u64,
    /// Pending with at least one attempt made.
    #[schema(example = 4)]
    retrying_count: u64,
    /// The dead-letter queue.
    #[schema(example = 1)]
    failed_count: u64,
    /// Delivered, and not yet removed by retention.
    #[schema(example = 2048)]
    delivered_count: u64,
    /// Since the oldest pending event was created, in whole seconds; null when nothing is pending.
    #[schema(example = 42)]
    oldest_pending_age_seconds: Option<u64>,
    /// What the instance's operators should know about how it runs, such as retries faster than the contract allows; left
    /// out when there is nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    warnings: Option<Vec<String>>,
}

impl OverviewBody {
    fn of(overview: Overview, warnings: &[String]) -> Self {
        Self {
            pending_count: overview.pending,
            pending_ready_count: overview.pending_ready,
            retrying_count: overview.retrying,
            failed_count: overview.failed,
            delivered_count: overview.delivered,
            oldest_pending_age_seconds: overview.oldest_pending_age.map(|age| age.as_secs()),
            warnings: (!warnings.is_empty()).then(|| warnings.to_vec()),
        }
    }
}

/// Count the outbox
///
/// Read from the store when it is asked for.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/overview", tag = "Outbox", operation_id = "getOverview",
    responses((status = 200, description = "The counts", body = OverviewBody)),
)]
pub(crate) async fn overview(
    State(service): State<Arc<Service>>,
    _: Allowed<Reading>,
    uri: Uri,
) -> Result<Json<OverviewBody>, ApiError> {
    Parameters::of(&uri, &[])?;
    Ok(Json(OverviewBody::of(service.store.overview().await?, &service.warnings)))
}
