//! The caller itself: its name, its role and what it may do. The page asks before it offers actions.

use axum::Json;
use http::Uri;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, Enqueue, Identify, Operate, ReadAll, ReadOneEvent};
use crate::error::ApiError;
use crate::query::QueryParameters;

#[derive(Serialize, ToSchema)]
#[schema(as = Caller)]
pub(crate) struct CallerBody {
    /// The name of the caller's API key, under which its actions are recorded; `local` if no keys are configured.
    #[schema(example = "dashboard")]
    name: String,
    /// `producer`, `viewer`, `operator` or `app`, which is bound to one application; null if no keys are configured.
    #[schema(example = "viewer")]
    role: Option<&'static str>,
    /// What the caller may do: `enqueue` events, `read_event` by its id, `read_all` events, destinations, counts and notices,
    /// `operate`, which is to requeue, cancel and discard events and to pause and resume destinations. Later versions may add
    /// others.
    #[schema(example = json!(["read_event", "read_all"]))]
    permissions: Vec<&'static str>,
}

/// Show the caller's permissions
///
/// Names the API key of this request, its role, and what it may do.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/whoami", tag = "Service", operation_id = "getCaller",
    responses((status = 200, description = "The caller", body = CallerBody)),
)]
pub(crate) async fn whoami(caller: Authorized<Identify>, uri: Uri) -> Result<Json<CallerBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    let permissions = [
        ("enqueue", caller.may::<Enqueue>()),
        ("read_event", caller.may::<ReadOneEvent>()),
        ("read_all", caller.may::<ReadAll>()),
        ("operate", caller.may::<Operate>()),
    ];
    Ok(Json(CallerBody {
        role: caller.role_name(),
        permissions: permissions.into_iter().filter_map(|(name, may)| may.then_some(name)).collect(),
        name: caller.name,
    }))
}
