//! Lists events of any state, and shows one event with its history.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_domain::{DeliveryStatus, DestinationUrl, EndpointId};
use posthaste_store::{EventDetail, EventQuery, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll, ReadOneEvent};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::{AttemptBody, AuditEntryBody, EventBody, EventDetailBody, EventIdPath};
use crate::explain::{LateResult, explain};
use crate::page::{Listing, encode_cursor, parse_page_request};
use crate::producer_view::ProducerView;
use crate::query::{QueryParameters, excerpt, invalid_parameter};

/// Maximum number of attempts, and of operator actions, shown for one event.
const HISTORY_MAX: usize = 100;

/// A page of events.
#[derive(Serialize, ToSchema)]
#[schema(as = EventPage)]
pub(crate) struct EventPage {
    events: Vec<EventBody>,
    /// Pass it as `cursor` to get the next page; null on the last page.
    next_cursor: Option<String>,
}

/// List events
///
/// Lists events of any state, newest first.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/events", tag = "Events", operation_id = "listEvents",
    params(
        ("status" = Option<crate::event::DeliveryStatusSchema>, Query, description = "Only events in this state"),
        ("destination" = Option<String>, Query, description = "Only events to this URL", example = "https://receiver.example/hook"),
        ("endpoint_id" = Option<String>, Query, description = "Only events of this endpoint", example = "ep_0000000000000011"),
        ("limit" = Option<u32>, Query, description = "Maximum number of events on the page", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the previous page"),
    ),
    responses(
        (status = 200, description = "A page of events", body = EventPage),
    ),
)]
pub(crate) async fn events(
    State(state): State<Arc<ApiState>>,
    _: Authorized<ReadAll>,
    uri: Uri,
) -> Result<Json<EventPage>, ApiError> {
    let parameters =
        QueryParameters::parse(&uri, &["status", "destination", "endpoint_id", "limit", "cursor"])?;
    let query = EventQuery {
        status: parameters.get("status").map(parse_status).transpose()?,
        destination: parameters.get("destination").map(parse_destination).transpose()?,
        endpoint: parameters.get("endpoint_id").map(parse_endpoint).transpose()?,
    };
    let request = parse_page_request(&parameters, Listing::Events)?;
    let page = state.store.events(&query, &request).await?;
    Ok(Json(EventPage {
        events: page.items.iter().map(EventBody::from).collect(),
        next_cursor: page.next.map(|cursor| encode_cursor(Listing::Events, cursor)),
    }))
}

fn parse_status(text: &str) -> Result<DeliveryStatus, ApiError> {
    DeliveryStatus::from_name(text).ok_or_else(|| {
        let shown = excerpt(text);
        invalid_parameter("status", format!("status must be pending, delivered or failed, got {shown:?}"))
    })
}

fn parse_destination(text: &str) -> Result<DestinationUrl, ApiError> {
    DestinationUrl::parse(text).map_err(|error| {
        invalid_parameter("destination", error.to_string().replace("destination_url", "destination"))
    })
}

fn parse_endpoint(text: &str) -> Result<EndpointId, ApiError> {
    EndpointId::parse(text).ok_or_else(|| {
        let shown = excerpt(text);
        invalid_parameter(
            "endpoint_id",
            format!("endpoint_id must be the id of an endpoint, ep_…, got {shown:?}"),
        )
    })
}

/// Show an event
///
/// Shows an event with its attempts, the operator actions on it, and an explanation of its state. For an event that an
/// operator discarded, the error says when, by whom and why.
///
/// A producer sees the events that its own key stored; the events of others do not exist for it. It does not see operators:
/// `audit` is omitted and `explanation` contains no names. It sees the status or error class of each attempt, but no text of
/// the receiver, unless `producer_excerpts` is set.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/events/{event_id}", tag = "Events", operation_id = "getEvent",
    params(("event_id" = String, Path, description = "The event's id, percent-encoded", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")),
    responses(
        (status = 200, description = "The event", body = EventDetailBody),
    ),
)]
pub(crate) async fn event(
    State(state): State<Arc<ApiState>>,
    caller: Authorized<ReadOneEvent>,
    EventIdPath(event_id): EventIdPath,
    uri: Uri,
) -> Result<Json<EventDetailBody>, ApiError> {
    QueryParameters::require_none(&uri)?;
    let producer = caller
        .producer_name()
        .map(|key_name| ProducerView { key_name, with_excerpts: state.producer_excerpts });
    let found = state.store.event(&event_id).await;
    let detail = match &producer {
        Some(producer) => producer.restrict_event(&event_id, found)?,
        None => found?,
    };
    let late_result = LateResult::find(&detail);
    let EventDetail { event, history, audit } = detail;
    let destination = match event.status {
        DeliveryStatus::Pending => match state.store.destination_status(event.destination_id).await {
            // Retention removed the destination after the event was read.
            Err(StoreError::DestinationNotFound { .. }) => None,
            found => Some(match &producer {
                Some(producer) => producer.restrict_destination(found?),
                None => found?,
            }),
        },
        // Only a pending event can be held up by its destination.
        DeliveryStatus::Delivered | DeliveryStatus::Failed => None,
    };
    let with_excerpts = producer.as_ref().is_none_or(|producer| producer.with_excerpts);
    Ok(Json(EventDetailBody {
        event: EventBody::from(&event),
        explanation: explain(&event, late_result.as_ref(), destination.as_ref(), &state.retry_policy),
        history: latest(history).map(|attempt| AttemptBody::new(&attempt, with_excerpts)).collect(),
        audit: producer.is_none().then(|| latest(audit).map(AuditEntryBody::from).collect()),
    }))
}

/// Returns the last entries of a history in their order.
fn latest<T>(mut all: Vec<T>) -> impl Iterator<Item = T> {
    all.split_off(all.len().saturating_sub(HISTORY_MAX)).into_iter()
}
