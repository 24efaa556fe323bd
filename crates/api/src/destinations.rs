//! Lists destinations, shows one, and pauses, resumes and probes it. The store records the caller's name.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use http::{HeaderMap, Uri};
use posthaste_domain::DestinationId;
use posthaste_store::{
    DestinationState, DestinationView, Page, PageLimit, PauseRequest, ProbeRefusal, ProbeResponse, StoreError,
};
use serde::{Deserialize, Serialize};
use serde_json::json;
use utoipa::ToSchema;

use crate::access::{Authorized, Operate, ReadAll};
use crate::actions::{NoFields, read_action, validate_reason};
use crate::api::ApiState;
use crate::destination::{
    DestinationBody, DestinationDetailBody, DestinationIdPath, DestinationStateSchema, DestinationStatusBody,
    parse_id,
};
use crate::error::ApiError;
use crate::page::{encode_destination_cursor, parse_destination_page_request};
use crate::query::{QueryParameters, excerpt, invalid_parameter};
use crate::timestamp::Rfc3339;

/// Longest pause with an end: a year.
const PAUSE_SECONDS_MAX: u64 = 366 * 86_400;

/// A page of destinations.
#[derive(Serialize, ToSchema)]
#[schema(as = DestinationPage)]
pub(crate) struct DestinationPage {
    destinations: Vec<DestinationBody>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    next_cursor: Option<String>,
}

#[derive(Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = Pause)]
pub(crate) struct PauseBody {
    /// How long the pause lasts. Omit it to pause until an operator resumes the destination.
    #[schema(minimum = 1, maximum = 31622400, example = 3600)]
    seconds: Option<u64>,
    /// Why the destination is paused. The audit log keeps it.
    #[schema(max_length = 500, example = "new disks")]
    reason: Option<String>,
}

/// List destinations
///
/// Lists destinations by id, each with its state and the events that wait for it. With `ids`, the response has these destinations in
/// their order, and leaves out those that do not exist.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/destinations", tag = "Destinations", operation_id = "listDestinations",
    params(
        ("state" = Option<DestinationStateSchema>, Query, description = "Only destinations in this state"),
        ("ids" = Option<String>, Query, description = "Only the destinations with these ids: 1 to 200, separated by commas. No other parameter may be given with it", example = "17,18"),
        ("limit" = Option<u32>, Query, description = "Maximum number of destinations on the page", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page of destinations", body = DestinationPage),
    ),
)]
pub(crate) async fn destinations(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<DestinationPage>, ApiError> {
    let parameters = QueryParameters::parse(&uri, &["state", "ids", "limit", "cursor"])?;
    let page = match parameters.get("ids") {
        Some(ids) => find_destinations(&state, parse_ids(&parameters, ids)?).await?,
        None => {
            let filter = parameters.get("state").map(parse_state).transpose()?;
            state.store.destinations(filter, &parse_destination_page_request(&parameters)?).await?
        }
    };
    Ok(Json(DestinationPage {
        destinations: describe(&state, page.items).await?,
        next_cursor: page.next.map(encode_destination_cursor),
    }))
}

/// Adds what workers know of the destinations.
pub(crate) async fn describe(
    state: &ApiState,
    views: Vec<DestinationView>,
) -> Result<Vec<DestinationBody>, StoreError> {
    let ids: Vec<DestinationId> = views.iter().map(|view| view.status.id).collect();
    let known = state.store.activity().receivers(&ids).await?;
    Ok(views.into_iter().map(|view| DestinationBody::new(view, &known)).collect())
}

async fn find_destinations(
    state: &ApiState,
    ids: Vec<DestinationId>,
) -> Result<Page<DestinationView, DestinationId>, StoreError> {
    let mut items = Vec::with_capacity(ids.len());
    for id in ids {
        match state.store.destination(id).await {
            Ok(detail) => items.push(detail.destination),
            Err(StoreError::DestinationNotFound { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Page { items, next: None })
}

fn parse_ids(parameters: &QueryParameters, text: &str) -> Result<Vec<DestinationId>, ApiError> {
    if let Some(other) = ["state", "limit", "cursor"].into_iter().find(|name| parameters.get(name).is_some())
    {
        return Err(invalid_parameter(other, format!("{other} must not be given together with ids")));
    }
    let ids: Option<Vec<DestinationId>> = text.split(',').map(parse_id).collect();
    ids.filter(|ids| ids.len() <= PageLimit::MAX).ok_or_else(|| {
        let (max, shown) = (PageLimit::MAX, excerpt(text));
        invalid_parameter("ids", format!("ids must be 1 to {max} numbers separated by commas, got {shown:?}"))
    })
}

fn parse_state(text: &str) -> Result<DestinationState, ApiError> {
    DestinationState::from_name(text).ok_or_else(|| {
        let states: Vec<_> = DestinationState::ALL.iter().map(|state| state.as_str()).collect();
        let (states, shown) = (states.join(", "), excerpt(text));
        invalid_parameter("state", format!("state must be one of {states}, got {shown:?}"))
    })
}

/// Show a destination
///
/// Shows a destination with its state, the events that wait for it, and the operator actions on it.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/destinations/{destination_id}", tag = "Destinations", operation_id = "getDestination",
    params(("destination_id" = String, Path, description = "The destination's id", example = "17")),
    responses(
        (status = 200, description = "The destination", body = DestinationDetailBody),
    ),
)]
pub(crate) async fn destination(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    DestinationIdPath(id): DestinationIdPath,
    uri: Uri,
) -> Result<Json<DestinationDetailBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    let detail = state.store.destination(id).await?;
    let known = state.store.activity().receivers(&[id]).await?;
    Ok(Json(DestinationDetailBody::new(detail, &known)))
}

/// Pause a destination
///
/// Holds all events of a destination until the pause ends or an operator resumes the destination. Requests in flight finish.
/// Held events use up no attempts. A later pause replaces an earlier one.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/destinations/{destination_id}/pause", tag = "Destinations", operation_id = "pauseDestination",
    params(("destination_id" = String, Path, description = "The destination's id", example = "17")),
    request_body(content = PauseBody, description = "Optional"),
    responses(
        (status = 200, description = "The destination is paused", body = DestinationStatusBody),
    ),
)]
pub(crate) async fn pause(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    DestinationIdPath(id): DestinationIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<DestinationStatusBody>, ApiError> {
    let PauseBody { seconds, reason } = read_action(&state, &uri, &headers, body).await?;
    validate_reason(reason.as_deref().unwrap_or_default())?;
    let duration = seconds.map(validate_seconds).transpose()?;
    let pause = PauseRequest::new(&caller.name, duration, reason.as_deref());
    let status = state.store.pause_destination(id, &pause).await?;
    tracing::info!(destination_id = id.0, actor = caller.name, seconds, "destination paused");
    Ok(Json((&status).into()))
}

fn validate_seconds(seconds: u64) -> Result<Duration, ApiError> {
    if (1..=PAUSE_SECONDS_MAX).contains(&seconds) {
        return Ok(Duration::from_secs(seconds));
    }
    let message =
        format!("seconds must be 1 to {PAUSE_SECONDS_MAX}, got {seconds}; omit it to pause without end");
    Err(ApiError::invalid_at(message, json!({ "field": "seconds" })))
}

/// The result of asking for a probe.
#[derive(Serialize, ToSchema)]
#[schema(as = Probed)]
pub(crate) struct ProbeBody {
    #[schema(example = "17")]
    destination_id: String,
    #[schema(value_type = crate::destination::DestinationStateSchema)]
    state: &'static str,
    /// Whether workers send a probe now.
    probed: bool,
    /// Why no probe is sent: `no circuit is open`, `no event waits`, or until when the destination is paused; null if one is sent.
    #[schema(example = "no circuit is open")]
    reason: Option<String>,
}

impl From<ProbeResponse> for ProbeBody {
    fn from(ProbeResponse { status, refusal }: ProbeResponse) -> Self {
        Self {
            destination_id: status.id.to_string(),
            state: status.state().as_str(),
            probed: refusal.is_none(),
            reason: refusal.map(|refusal| match (refusal, status.paused_until()) {
                (ProbeRefusal::NoOpenCircuit, _) => "no circuit is open".to_owned(),
                (ProbeRefusal::NoWaitingEvent, _) => "no event waits".to_owned(),
                (ProbeRefusal::Paused, _) if status.disabled.is_some() => {
                    "the endpoint is disabled; enable it first".to_owned()
                }
                (ProbeRefusal::Paused, Some(until)) => format!("paused until {}", Rfc3339(until)),
                (ProbeRefusal::Paused, None) => "paused until an operator resumes it".to_owned(),
            }),
        }
    }
}

/// Probe a destination now
///
/// Ends the wait of open circuits of a destination for their next probe: each worker with an open circuit sends one request at once. If
/// it succeeds, the circuit closes; if it fails, the circuit stays open for its whole cool-down. Other than a resume, a probe closes no
/// circuit and lifts no pause.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/destinations/{destination_id}/probe", tag = "Destinations", operation_id = "probeDestination",
    params(("destination_id" = String, Path, description = "The destination's id", example = "17")),
    responses(
        (status = 200, description = "Whether a probe is sent, and why not", body = ProbeBody),
    ),
)]
pub(crate) async fn probe(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    DestinationIdPath(id): DestinationIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<ProbeBody>, ApiError> {
    let NoFields {} = read_action(&state, &uri, &headers, body).await?;
    let response = state.store.probe_destination(id, &caller.name).await?;
    tracing::info!(
        destination_id = id.0,
        actor = caller.name,
        probed = response.refusal.is_none(),
        "probe requested"
    );
    Ok(Json(response.into()))
}

/// Resume a destination
///
/// Ends the pause of an operator and that of the receiver, and closes the circuit. Workers send due events within about a
/// second. If the receiver still fails, its circuit opens again.
#[utoipa::path(
    post, path = "/v1/webhook-outbox/destinations/{destination_id}/resume", tag = "Destinations", operation_id = "resumeDestination",
    params(("destination_id" = String, Path, description = "The destination's id", example = "17")),
    responses(
        (status = 200, description = "Events are sent again", body = DestinationStatusBody),
    ),
)]
pub(crate) async fn resume(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<Operate>,
    DestinationIdPath(id): DestinationIdPath,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Json<DestinationStatusBody>, ApiError> {
    let NoFields {} = read_action(&state, &uri, &headers, body).await?;
    let status = state.store.resume_destination(id, &caller.name).await?;
    tracing::info!(destination_id = id.0, actor = caller.name, "destination resumed");
    Ok(Json((&status).into()))
}
