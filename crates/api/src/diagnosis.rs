//! The server's own checks, for operators: `posthaste doctor` prints them.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_engine::within;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::query::QueryParameters;

/// Time limit of all checks together.
const CHECKS_TIMEOUT: Duration = Duration::from_secs(15);
/// How long a diagnosis is served from the cache. It includes trial writes, so callers must not be able to run it often.
pub(crate) const DIAGNOSIS_MAX_AGE: Duration = Duration::from_secs(10);

/// Runs the checks of this process: of its configuration, its store, its worker and its host.
#[async_trait]
pub trait SelfChecks: Send + Sync + 'static {
    /// Returns the name of the worker, or of the process if it has none.
    fn worker_id(&self) -> String;

    /// Runs all checks. The API calls it at most once in ten seconds.
    async fn run(&self) -> Vec<Finding>;
}

/// Has no checks.
#[async_trait]
impl SelfChecks for () {
    fn worker_id(&self) -> String {
        String::new()
    }

    async fn run(&self) -> Vec<Finding> {
        Vec::new()
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Finding {
    /// The name of the check.
    #[schema(example = "certificates")]
    pub check: String,
    pub verdict: Verdict,
    /// What the check found and, unless it is fine, what to do.
    #[serde(rename = "finding")]
    #[schema(
        example = "no certificate authority is trusted, so deliveries to https receivers fail: install ca-certificates, or set ca_file"
    )]
    pub text: String,
}

impl Finding {
    pub fn new(check: impl Into<String>, verdict: Verdict, text: impl Into<String>) -> Self {
        Self { check: check.into(), verdict, text: text.into() }
    }
}

/// How serious a finding is: `careful` is a risk; with `broken`, the server or a part of it cannot work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase", from = "String")]
#[schema(example = "careful")]
pub enum Verdict {
    Ok,
    Careful,
    Broken,
}

impl Verdict {
    /// Returns the verdict's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Careful => "careful",
            Self::Broken => "broken",
        }
    }
}

/// Returns the verdict with this name. A name that this version does not know is a risk.
impl From<String> for Verdict {
    fn from(name: String) -> Self {
        [Self::Ok, Self::Broken].into_iter().find(|verdict| verdict.as_str() == name).unwrap_or(Self::Careful)
    }
}

/// What the server found about itself.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = Diagnosis)]
pub(crate) struct DiagnosisBody {
    /// The version of the server.
    #[schema(example = "0.1.0")]
    version: &'static str,
    /// The name of the server's worker in logs and in the history of attempts.
    #[schema(example = "host-7")]
    worker_id: String,
    /// The id of the server's process on its host.
    #[schema(example = 4242)]
    process_id: u32,
    findings: Vec<Finding>,
}

/// Check the server
///
/// Runs the checks of `posthaste doctor` in the server, with its configuration, its store and its host. A response may be ten
/// seconds old.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/doctor", tag = "Service", operation_id = "getDiagnosis",
    responses((status = 200, description = "The findings, also if some are `broken`", body = DiagnosisBody)),
)]
pub(crate) async fn doctor(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<DiagnosisBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    let clock = &*state.clock;
    let run_checks = async {
        within(clock, CHECKS_TIMEOUT, state.self_checks.run()).await.unwrap_or_else(|| {
            let finding =
                format!("the checks did not complete within {CHECKS_TIMEOUT:?}; see /readyz and the log");
            vec![Finding::new("diagnosis", Verdict::Broken, finding)]
        })
    };
    let findings = state.diagnosis_cache.get_or_compute(clock, run_checks).await;
    Ok(Json(DiagnosisBody {
        version: env!("CARGO_PKG_VERSION"),
        worker_id: state.self_checks.worker_id(),
        process_id: std::process::id(),
        findings,
    }))
}
