//! The dead-letter queue, the latest change first.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Allowed, Reading};
use crate::api::Service;
use crate::error::ApiError;
use crate::event::DeadLetterBody;
use crate::page::{Listing, encode, wanted};
use crate::query::Parameters;

/// A page of dead letters.
#[derive(Serialize, ToSchema)]
#[schema(as = DeadLetterPage)]
pub(crate) struct DeadLettersBody {
    events: Vec<DeadLetterBody>,
    /// Pass it as `cursor` to read on; null on the last page.
    next_cursor: Option<String>,
}

/// List dead letters
///
/// Failed events by `updated_at` and then by age, descending. A page goes on after the last event of the one before,
/// whatever happened in between.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/dlq", tag = "Dead letters", operation_id = "listDeadLetters",
    params(
        ("limit" = Option<u32>, Query, description = "Events on a page", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = DeadLettersBody),
    ),
)]
pub(crate) async fn dead_letters(
    State(service): State<Arc<Service>>,
    _: Allowed<Reading>,
    uri: Uri,
) -> Result<Json<DeadLettersBody>, ApiError> {
    let parameters = Parameters::of(&uri, &["limit", "cursor"])?;
    let page = wanted(&parameters, Listing::DeadLetters)?;
    let found = service.store.dead_letters(&page).await?;
    Ok(Json(DeadLettersBody {
        events: found.items.iter().map(DeadLetterBody::from).collect(),
        next_cursor: found.next.map(|cursor| encode(Listing::DeadLetters, cursor)),
    }))
}
