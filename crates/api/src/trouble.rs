//! The destinations that need attention: how many are in each state, and those with the longest backlogs.

use std::cmp::Reverse;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_store::{DestinationState, DestinationView, PageLimit, PageRequest, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::destination::{DestinationBody, DestinationStateSchema};
use crate::destinations::describe;
use crate::error::ApiError;
use crate::query::QueryParameters;

/// The states that need attention, the worst first.
const STATES: [DestinationState; 4] = [
    DestinationState::CircuitOpen,
    DestinationState::Failing,
    DestinationState::Disabled,
    DestinationState::Paused,
];
/// Maximum number of destinations that are counted in each state. Each has its backlog counted too.
const COUNTED_MAX: usize = 1_000;
/// Maximum number of destinations in the response.
const SHOWN_MAX: usize = 20;
/// How long a response is served from the cache: every open page asks for it every few seconds.
pub(crate) const TROUBLE_MAX_AGE: Duration = Duration::from_secs(3);

/// The destinations that need attention.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = Trouble)]
pub(crate) struct TroubleBody {
    /// One entry for each of the states `circuit_open`, `failing`, `disabled` and `paused`.
    counts: Vec<StateCountBody>,
    /// The destinations with most pending events, of all these states, the longest backlog first.
    #[schema(max_items = 20)]
    worst: Vec<DestinationBody>,
}

/// The number of destinations in one state.
#[derive(Clone, Serialize, ToSchema)]
#[schema(as = DestinationStateCount)]
pub(crate) struct StateCountBody {
    #[schema(value_type = DestinationStateSchema)]
    state: &'static str,
    /// Destinations in this state, counted up to 1,000.
    #[schema(example = 3)]
    count: usize,
    /// Whether there are more than were counted.
    #[schema(example = false)]
    is_capped: bool,
}

/// Show destinations in trouble
///
/// Counts the destinations that need attention by state, and shows the twenty with most pending events. The counts are at most three
/// seconds old.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/trouble", tag = "Destinations", operation_id = "getTrouble",
    responses((status = 200, description = "The destinations in trouble", body = TroubleBody)),
)]
pub(crate) async fn trouble(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<TroubleBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    let found = state.trouble_cache.get_or_compute(&*state.clock, find_trouble(&state)).await;
    Ok(Json(found?))
}

async fn find_trouble(state: &ApiState) -> Result<TroubleBody, StoreError> {
    let mut counts = Vec::with_capacity(STATES.len());
    let mut found = Vec::new();
    for trouble in STATES {
        let (views, is_capped) = list_state(state, trouble).await?;
        counts.push(StateCountBody { state: trouble.as_str(), count: views.len(), is_capped });
        found.extend(views);
    }
    // The sort is stable: of equal backlogs, the worse state comes first.
    found.sort_by_key(|view| Reverse((view.pending.count, view.pending.oldest_age)));
    found.truncate(SHOWN_MAX);
    Ok(TroubleBody { counts, worst: describe(state, found).await? })
}

/// Lists the destinations in a state, up to [`COUNTED_MAX`]. Also returns whether there are more.
async fn list_state(
    state: &ApiState,
    wanted: DestinationState,
) -> Result<(Vec<DestinationView>, bool), StoreError> {
    let limit = PageLimit::new(200).expect("200 is the largest limit");
    let mut views = Vec::new();
    let mut after = None;
    loop {
        let page = state.store.destinations(Some(wanted), &PageRequest { after, limit }).await?;
        views.extend(page.items);
        match page.next {
            Some(next) if views.len() < COUNTED_MAX => after = Some(next),
            next => return Ok((views, next.is_some())),
        }
    }
}
