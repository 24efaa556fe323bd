//! Alive, and able to work: for whoever restarts processes and directs traffic. Neither needs a key.

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

use crate::api::Service;

/// What takes longer than this is not ready.
const CHECKED_WITHIN: Duration = Duration::from_secs(5);

/// Whether the parts that this process needs can work.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// Asked at most once a second.
    async fn check(&self) -> Vec<Check>;
}

/// One part, and how it is. `detail` is shown to whoever asks, also without a key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct Check {
    #[schema(example = "store")]
    pub name: &'static str,
    pub ok: bool,
    #[schema(example = "answers")]
    pub detail: String,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Health)]
pub(crate) struct HealthBody {
    #[schema(example = "ok")]
    status: &'static str,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Readiness)]
pub(crate) struct ReadinessBody {
    /// `ready` or `unavailable`.
    #[schema(example = "ready")]
    status: &'static str,
    checks: Vec<Check>,
}

/// Is it alive?
#[utoipa::path(
    get, path = "/healthz", tag = "Service", operation_id = "getHealth", security(()),
    responses((status = 200, description = "It answers", body = HealthBody)),
)]
pub(crate) async fn healthz() -> Json<HealthBody> {
    Json(HealthBody { status: "ok" })
}

/// Can it work?
#[utoipa::path(
    get, path = "/readyz", tag = "Service", operation_id = "getReadiness", security(()),
    responses(
        (status = 200, description = "Every part can work", body = ReadinessBody),
        (status = 503, description = "Some part cannot", body = ReadinessBody),
    ),
)]
pub(crate) async fn readyz(State(service): State<Arc<Service>>) -> Response {
    let clock = &*service.clock;
    let checking = async {
        within(clock, CHECKED_WITHIN, service.readiness.check()).await.unwrap_or_else(|| {
            let detail = format!("the checks were not done within {CHECKED_WITHIN:?}");
            vec![Check { name: "readiness", ok: false, detail }]
        })
    };
    let checks = service.ready.get(clock, checking).await;
    let ready = checks.iter().all(|check| check.ok);
    let (code, status) =
        if ready { (StatusCode::OK, "ready") } else { (StatusCode::SERVICE_UNAVAILABLE, "unavailable") };
    (code, Json(ReadinessBody { status, checks })).into_response()
}
