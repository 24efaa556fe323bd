//! Lists the dead-letter queue, most recently changed events first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_domain::FailureKind;
use posthaste_store::DeadLetterFilter;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::DeadLetterBody;
use crate::page::{Listing, encode_cursor, parse_page_request};
use crate::query::{QueryParameters, excerpt, invalid_parameter};

/// The value of `failure_kind` that lists every kind but `cancelled`.
const NOT_CANCELLED: &str = "not_cancelled";

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterPage)]
pub(crate) struct DeadLetterPage {
    events: Vec<DeadLetterBody>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List dead letters
///
/// Lists failed events by `updated_at` and then by id, both descending. A page continues after the last event of the
/// previous page, even if events have changed in between.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/dlq", tag = "Dead letters", operation_id = "listDeadLetters",
    params(
        ("failure_kind" = Option<String>, Query, description = "Only dead letters of this kind: `exhausted`, `cancelled`, `abandoned`, `gone` or `expired`. `not_cancelled` lists every kind but `cancelled`", example = "not_cancelled"),
        ("limit" = Option<u32>, Query, description = "Maximum number of events on the page", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page of dead letters", body = DeadLetterPage),
    ),
)]
pub(crate) async fn dead_letters(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<DeadLetterPage>, ApiError> {
    let parameters = QueryParameters::parse(&uri, &["failure_kind", "limit", "cursor"])?;
    let filter = parameters.get("failure_kind").map(parse_filter).transpose()?.unwrap_or_default();
    let request = parse_page_request(&parameters, Listing::DeadLetters)?;
    let page = state.store.dead_letters(filter, &request).await?;
    Ok(Json(DeadLetterPage {
        events: page.items.iter().map(DeadLetterBody::from).collect(),
        next_cursor: page.next.map(|cursor| encode_cursor(Listing::DeadLetters, cursor)),
    }))
}

/// Parses a failure kind, or the name of the filter that omits cancelled events.
fn parse_filter(text: &str) -> Result<DeadLetterFilter, ApiError> {
    match FailureKind::from_name(text) {
        Some(kind) => Ok(DeadLetterFilter::Kind(kind)),
        None if text == NOT_CANCELLED => Ok(DeadLetterFilter::NotCancelled),
        None => {
            let kinds: Vec<_> = FailureKind::ALL.iter().map(|kind| kind.as_str()).collect();
            let (kinds, shown) = (kinds.join(", "), excerpt(text));
            let message = format!("failure_kind must be {kinds} or {NOT_CANCELLED}, got {shown:?}");
            Err(invalid_parameter("failure_kind", message))
        }
    }
}
