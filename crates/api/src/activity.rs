//! The history for charts, and the workers: both from the reports of workers.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_store::{ActivityBucket, History, HistoryRange, WorkerStatus};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::query::{QueryParameters, excerpt, invalid_parameter};
use crate::timestamp::Rfc3339;

/// The length of the period, which ends now.
#[derive(ToSchema)]
#[schema(as = HistoryRange)]
#[expect(dead_code, reason = "only its schema is used; responses contain the store's names")]
pub(crate) enum HistoryRangeSchema {
    #[schema(rename = "15m")]
    QuarterHour,
    #[schema(rename = "1h")]
    Hour,
    #[schema(rename = "6h")]
    SixHours,
    #[schema(rename = "24h")]
    Day,
    #[schema(rename = "7d")]
    Week,
    #[schema(rename = "30d")]
    Month,
}

/// What all workers did during one step of time.
#[derive(Serialize, ToSchema)]
#[schema(as = HistoryPoint)]
pub(crate) struct HistoryPointBody {
    /// When the step began.
    #[schema(value_type = String, format = DateTime, example = "2026-11-17T10:00:00.000000Z")]
    at: Rfc3339,
    /// Events that were delivered.
    #[schema(example = 1200)]
    delivered_count: u64,
    /// Attempts that failed and will be retried.
    #[schema(example = 3)]
    retried_count: u64,
    /// Events that were dead-lettered.
    #[schema(example = 0)]
    failed_count: u64,
    /// Half of the requests took no longer than this many milliseconds; null if there were none. The value is an estimate.
    #[schema(example = 12.4)]
    latency_p50_ms: Option<f64>,
    /// 95 of 100 requests took no longer than this many milliseconds; null if there were none. The value is an estimate.
    #[schema(example = 48.0)]
    latency_p95_ms: Option<f64>,
    /// 99 of 100 requests took no longer than this many milliseconds; null if there were none. The value is an estimate.
    #[schema(example = 130.0)]
    latency_p99_ms: Option<f64>,
    /// Pending events at the last report of the step.
    #[schema(example = 12)]
    pending_count: Option<u64>,
    /// Dead letters at the last report of the step, without cancelled events.
    #[schema(example = 1)]
    dead_letter_count: Option<u64>,
}

impl From<&ActivityBucket> for HistoryPointBody {
    fn from(point: &ActivityBucket) -> Self {
        let latency_ms = |thousandths| point.counts.latency.quantile(thousandths).map(milliseconds);
        Self {
            at: Rfc3339(point.at),
            delivered_count: point.counts.delivered,
            retried_count: point.counts.retried,
            failed_count: point.counts.failed,
            latency_p50_ms: latency_ms(500),
            latency_p95_ms: latency_ms(950),
            latency_p99_ms: latency_ms(990),
            pending_count: Some(point.pending),
            dead_letter_count: Some(point.dead_letters),
        }
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1_000.0
}

/// The history of a period.
#[derive(Serialize, ToSchema)]
#[schema(as = History)]
pub(crate) struct HistoryBody {
    #[schema(value_type = HistoryRangeSchema)]
    range: &'static str,
    /// Seconds from the start of one step to the next.
    #[schema(example = 10)]
    step_seconds: u32,
    /// In the order of time. A step without a report of a worker has no point.
    points: Vec<HistoryPointBody>,
}

impl From<&History> for HistoryBody {
    fn from(history: &History) -> Self {
        Self {
            range: history.range.as_str(),
            step_seconds: history.step_seconds,
            points: history.points.iter().map(Into::into).collect(),
        }
    }
}

/// Read the history
///
/// Returns what all workers did during a period that ends now, for charts. The store keeps steps of 10 seconds for an hour,
/// of a minute for a day, and of half an hour for 31 days. Workers report every 10 seconds, so the last step grows until
/// it ends.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/history", tag = "Outbox", operation_id = "getHistory",
    params(
        ("range" = Option<HistoryRangeSchema>, Query, description = "The length of the period, which ends now. Default: 1h"),
    ),
    responses((status = 200, description = "The history", body = HistoryBody)),
)]
pub(crate) async fn history(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<HistoryBody>, ApiError> {
    let parameters = QueryParameters::parse(&uri, &["range"])?;
    let range = parameters.get("range").map(parse_range).transpose()?.unwrap_or_default();
    Ok(Json((&state.store.activity().history(range).await?).into()))
}

fn parse_range(text: &str) -> Result<HistoryRange, ApiError> {
    HistoryRange::from_name(text).ok_or_else(|| {
        let shown = excerpt(text);
        invalid_parameter("range", format!("range must be 15m, 1h, 6h, 24h, 7d or 30d, got {shown:?}"))
    })
}

/// A worker, as its last report describes it.
#[derive(Serialize, ToSchema)]
#[schema(as = Worker)]
pub(crate) struct WorkerBody {
    /// The worker's name. Two processes may have the same one.
    #[schema(example = "delivery-1")]
    worker_id: String,
    #[schema(example = "0.1.0")]
    version: String,
    #[schema(value_type = String, format = DateTime)]
    started_at: Rfc3339,
    /// When the worker last reported. A running worker reports every 10 seconds.
    #[schema(value_type = String, format = DateTime)]
    heartbeat_at: Rfc3339,
    /// Time since the last report, in whole seconds.
    #[schema(example = 3)]
    heartbeat_age_seconds: u64,
    /// Requests in flight at the last report.
    #[schema(example = 4)]
    in_flight: u64,
}

impl From<&WorkerStatus> for WorkerBody {
    fn from(worker: &WorkerStatus) -> Self {
        Self {
            worker_id: worker.worker.to_string(),
            version: worker.version.clone(),
            started_at: Rfc3339(worker.started_at),
            heartbeat_at: Rfc3339(worker.heartbeat_at),
            heartbeat_age_seconds: worker.heartbeat_age.as_secs(),
            in_flight: worker.in_flight,
        }
    }
}

/// The workers.
#[derive(Serialize, ToSchema)]
#[schema(as = WorkerList)]
pub(crate) struct WorkerListBody {
    workers: Vec<WorkerBody>,
}

/// List workers
///
/// Lists the workers of all processes, by name: those that reported within the last hour, except workers that have stopped.
/// Lists 1,000 workers at most.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/workers", tag = "Outbox", operation_id = "listWorkers",
    responses((status = 200, description = "The workers", body = WorkerListBody)),
)]
pub(crate) async fn workers(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<WorkerListBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    let workers = state.store.activity().workers().await?;
    Ok(Json(WorkerListBody { workers: workers.iter().map(Into::into).collect() }))
}
