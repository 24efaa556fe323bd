//! Liveness and readiness probes, for process supervisors and load balancers. They need no key.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use posthaste_engine::within;
use serde::Serialize;
use utoipa::ToSchema;

use crate::api::ApiState;

/// Time limit of the readiness checks. Beyond it, the process is not ready.
const CHECK_TIMEOUT: Duration = Duration::from_secs(5);

/// Checks the components that this process needs. The process is ready if all checks pass.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// Runs all checks. Called at most once a second.
    async fn check(&self) -> Vec<Check>;
}

/// The result of checking one component. `detail` is public: `/readyz` needs no key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Check {
    #[schema(example = "store")]
    pub name: &'static str,
    pub ok: bool,
    #[schema(example = "responds")]
    pub detail: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(crate) struct HealthBody {
    #[schema(example = "ok")]
    pub(crate) status: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct ReadinessBody {
    /// `ready` or `unavailable`.
    #[schema(example = "ready")]
    pub(crate) status: &'static str,
    pub(crate) checks: Vec<Check>,
}

/// Check liveness
///
/// Responds while the process is running.
#[utoipa::path(
    get, path = "/healthz", tag = "Service", operation_id = "getHealth", security(()),
    responses((status = 200, description = "The process is running", body = HealthBody)),
)]
pub(crate) async fn healthz() -> Json<HealthBody> {
    Json(HealthBody { status: "ok" })
}

/// Check readiness
///
/// Checks the components that the process needs, such as its store and its worker.
#[utoipa::path(
    get, path = "/readyz", tag = "Service", operation_id = "getReadiness", security(()),
    responses(
        (status = 200, description = "All checks passed", body = ReadinessBody),
        (status = 503, description = "At least one check failed", body = ReadinessBody),
    ),
)]
pub(crate) async fn readyz(State(state): State<Arc<ApiState>>) -> Response {
    let clock = &*state.clock;
    let run_checks = async {
        within(clock, CHECK_TIMEOUT, state.readiness.check()).await.unwrap_or_else(|| {
            let detail = format!("the checks did not complete within {CHECK_TIMEOUT:?}");
            vec![Check { name: "readiness", ok: false, detail }]
        })
    };
    let checks = state.readiness_cache.get_or_compute(clock, run_checks).await;
    let is_ready = checks.iter().all(|check| check.ok);
    let (code, status) =
        if is_ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "unavailable") };
    (code, Json(ReadinessBody { status, checks })).into_response()
}
