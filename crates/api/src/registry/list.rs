//! Lists in responses: a page, and the iterators that continue it in both directions.

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use posthaste_store::{List, ListFrom, ListLimit, ListRequest};
use serde::Serialize;
use utoipa::{IntoParams, ToSchema};

use super::error::RegistryError;
use super::query::Params;

/// A page of a list.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListOf<T> {
    pub(super) data: Vec<T>,
    /// Pass it as `iterator` to get the next page; null if this page is empty.
    pub(super) iterator: Option<String>,
    /// Pass it as `iterator` to get the page before this one; null if this page is empty.
    pub(super) prev_iterator: Option<String>,
    /// Whether no further page follows in the direction of the request.
    pub(super) done: bool,
}

/// Which page to return.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only its description is used; the parameters are parsed one by one")]
pub(super) struct PageParams {
    /// Maximum number of items on the page.
    #[param(minimum = 1, maximum = 250, default = 50)]
    limit: Option<i64>,
    /// The `iterator` or `prevIterator` of another page.
    iterator: Option<String>,
}

/// Parses the page of a request. `parse` reads the id of an item.
pub(super) fn parse_list_request<K>(
    params: &Params,
    parse: impl Fn(&str) -> Option<K>,
) -> Result<ListRequest<K>, RegistryError> {
    let limit = match params.integer("limit")? {
        None => ListLimit::default(),
        Some(limit) => ListLimit::new(limit).map_err(|error| RegistryError::in_query("limit", error))?,
    };
    let from = match params.get("iterator") {
        None | Some("") => Some(ListFrom::Start),
        Some(text) => match text.strip_prefix('-') {
            Some(first) => parse(first).map(ListFrom::Before),
            None => parse(text).map(ListFrom::After),
        },
    };
    let from = from.ok_or_else(|| {
        RegistryError::in_query("iterator", "iterator must be the iterator or prevIterator of a page")
    })?;
    Ok(ListRequest { from, limit })
}

/// Builds a page. `id` names an item, and `view` shows it, unless a filter leaves it out.
pub(super) fn page<T, O>(
    list: List<T>,
    id: impl Fn(&T) -> String,
    view: impl Fn(T) -> Option<O>,
) -> ListOf<O> {
    ListOf {
        iterator: list.items.last().map(&id),
        prev_iterator: list.items.first().map(|item| format!("-{}", id(item))),
        done: list.done,
        data: list.items.into_iter().filter_map(view).collect(),
    }
}

/// Builds the response with a page of which every item is shown.
pub(super) fn respond<T, O: Serialize>(
    list: List<T>,
    id: impl Fn(&T) -> String,
    view: impl Fn(T) -> O,
) -> Response {
    Json(page(list, id, |item| Some(view(item)))).into_response()
}
