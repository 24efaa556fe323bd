//! Lists the dead-letter queue, most recently changed events first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::DeadLetterBody;
use crate::page::{Listing, encode_cursor, parse_page_request};
use crate::query::QueryParameters;

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
    let parameters = QueryParameters::parse(&uri, &["limit", "cursor"])?;
    let request = parse_page_request(&parameters, Listing::DeadLetters)?;
    let page = state.store.dead_letters(&request).await?;
    Ok(Json(DeadLetterPage {
        events: page.items.iter().map(DeadLetterBody::from).collect(),
        next_cursor: page.next.map(|cursor| encode_cursor(Listing::DeadLetters, cursor)),
    }))
}
