//! Background operations in requests and responses.

use posthaste_store::{Operation, OperationKind, OperationState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::timestamp::Rfc3339;

/// The period whose messages an operation sends: of at most 14 days.
#[derive(Deserialize, ToSchema)]
pub(in crate::registry) struct PeriodIn {
    #[schema(format = DateTime, example = "2026-01-31T11:29:00Z")]
    pub(in crate::registry) since: String,
    /// The end of the period; now if omitted.
    #[schema(format = DateTime, example = json!(null))]
    pub(in crate::registry) until: Option<String>,
}

/// An operation that was started.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct StartedOperationOut {
    #[schema(example = "qtask_0000000000000001")]
    id: String,
    /// `running`, `finished`, or `failed` if it was stopped before its end.
    status: &'static str,
    /// `endpoint.recover` or `endpoint.replay`.
    task: &'static str,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
}

/// An operation with its progress.
#[derive(Serialize, ToSchema)]
pub(in crate::registry) struct OperationOut {
    #[serde(flatten)]
    started: StartedOperationOut,
    data: OperationData,
}

/// The progress of an operation.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct OperationData {
    app_id: String,
    endpoint_id: String,
    #[schema(value_type = String, format = DateTime)]
    since: Rfc3339,
    #[schema(value_type = String, format = DateTime)]
    until: Rfc3339,
    /// Messages or events that the operation has examined.
    examined: u64,
    /// Events that the operation has sent again.
    sent: u64,
    rate_per_second: u32,
    /// `running`, `finished` or `stopped`.
    state: &'static str,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
}

impl From<&Operation> for StartedOperationOut {
    fn from(operation: &Operation) -> Self {
        Self {
            id: operation.id.to_string(),
            status: match operation.state {
                OperationState::Running => "running",
                OperationState::Finished => "finished",
                OperationState::Stopped => "failed",
            },
            task: match operation.kind {
                OperationKind::Recover => "endpoint.recover",
                OperationKind::ReplayMissing => "endpoint.replay",
            },
            updated_at: operation.updated_at.into(),
        }
    }
}

impl From<&Operation> for OperationOut {
    fn from(operation: &Operation) -> Self {
        Self {
            started: operation.into(),
            data: OperationData {
                app_id: operation.app.to_string(),
                endpoint_id: operation.endpoint.to_string(),
                since: operation.since.into(),
                until: operation.until.into(),
                examined: operation.examined_count,
                sent: operation.done_count,
                rate_per_second: operation.rate.per_second(),
                state: operation.state.as_str(),
                created_at: operation.created_at.into(),
            },
        }
    }
}
