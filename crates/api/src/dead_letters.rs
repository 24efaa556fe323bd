//! Lists the dead-letter queue, most recently changed events first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_store::DeadLetterQuery;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::DeadLetterBody;
use crate::filter::{FILTER_PARAMETERS, FilterRequest, Place};
use crate::page::{Listing, encode_cursor, parse_page_request};
use crate::query::QueryParameters;
use crate::timestamp::Rfc3339;

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterPage)]
pub(crate) struct DeadLetterPage {
    events: Vec<DeadLetterBody>,
    /// Pass it as `cursor` to get the next page; null on the last page. A page may be short, or empty, and still have a next one.
    next_cursor: Option<String>,
    /// The time up to which, going back, dead letters were examined for this page and the pages before; null on the last page.
    #[schema(value_type = Option<String>, format = DateTime)]
    searched_until: Option<Rfc3339>,
}

/// List dead letters
///
/// Lists failed events by `updated_at` and then by id, both descending. A page continues after the last event of the
/// previous page, even if events have changed in between. Parameters combine: an event must meet all of them. A bulk operation with
/// the same filter selects the same events; it takes no `failure_kind` for `not_cancelled`.
///
/// A page examines at most 10,000 dead letters. It may be short, or empty, although more follow: only a `next_cursor` of null is the
/// end.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/dlq", tag = "Dead letters", operation_id = "listDeadLetters",
    params(
        ("destination" = Option<String>, Query, description = "Only events to this URL, or of the endpoint with this id", example = "https://receiver.example/hook"),
        ("app" = Option<String>, Query, description = "Only events of the application with this id or uid", example = "customer-17"),
        ("event_type" = Option<String>, Query, description = "Only events of this type", example = "invoice.paid"),
        ("failure_kind" = Option<String>, Query, description = "Only dead letters of this kind: `exhausted`, `cancelled`, `abandoned`, `gone` or `expired`. `not_cancelled` lists every kind but `cancelled`", example = "not_cancelled"),
        ("error_class" = Option<String>, Query, description = "Only events with this last error: `timeout`, `dns`, `blocked_address`, `connect`, `tls`, `certificate`, `reset`, `broken_response`, `unsendable`, `panic`, an HTTP status such as `http_503`, or all of one hundred such as `http_5xx`", example = "http_5xx"),
        ("since" = Option<String>, Query, description = "Only events that failed at this time or later (RFC 3339)", example = "2026-01-31T11:29:00Z"),
        ("until" = Option<String>, Query, description = "Only events that failed at this time or earlier (RFC 3339)", example = "2026-01-31T12:00:00Z"),
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
    let parameters = QueryParameters::parse(&uri, &[&FILTER_PARAMETERS[..], &["limit", "cursor"]].concat())?;
    let filter = FilterRequest::of_query(&parameters)?.accept(Place::Query)?;
    let request = parse_page_request(&parameters, Listing::DeadLetters)?;
    let query = DeadLetterQuery {
        filter: filter.resolve(&state, Place::Query).await?,
        with_cancelled: parameters.get("failure_kind").is_none(),
        ..DeadLetterQuery::default()
    };
    let page = state.store.dead_letters(&query, &request).await?;
    Ok(Json(DeadLetterPage {
        events: page.items.iter().map(DeadLetterBody::from).collect(),
        next_cursor: page.next.map(|cursor| encode_cursor(Listing::DeadLetters, cursor)),
        searched_until: page.next.map(|cursor| cursor.at.into()),
    }))
}
