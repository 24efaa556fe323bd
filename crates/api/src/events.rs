//! Events of any state: listed, and one by itself with its history.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_domain::{DeliveryStatus, DestinationUrl};
use posthaste_store::{EventDetail, EventQuery, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Allowed, Reading, ReadingOne};
use crate::api::Service;
use crate::error::ApiError;
use crate::event::{AttemptBody, AuditBody, EventBody, EventDetailBody, NamedEvent};
use crate::explain::explain;
use crate::page::{Listing, encode, wanted};
use crate::query::{Parameters, refused};

/// Attempts of one event that are shown, and actions.
const LISTED_MAX: usize = 100;

/// A page of events.
#[derive(Serialize, ToSchema)]
#[schema(as = EventPage)]
pub(crate) struct EventsBody {
    events: Vec<EventBody>,
    /// Pass it as `cursor` to read on; null on the last page.
    next_cursor: Option<String>,
}

/// List events
///
/// Events of any state, the newest first.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/events", tag = "Events", operation_id = "listEvents",
    params(
        ("status" = Option<crate::event::DeliveryStatusWord>, Query, description = "Only events of this state"),
        ("destination" = Option<String>, Query, description = "Only events to this URL", example = "https://receiver.example/hook"),
        ("limit" = Option<u32>, Query, description = "Events on a page", minimum = 1, maximum = 200),
        ("cursor" = Option<String>, Query, description = "The `next_cursor` of the page before"),
    ),
    responses(
        (status = 200, description = "A page", body = EventsBody),
    ),
)]
pub(crate) async fn events(
    State(service): State<Arc<Service>>,
    _: Allowed<Reading>,
    uri: Uri,
) -> Result<Json<EventsBody>, ApiError> {
    let parameters = Parameters::of(&uri, &["status", "destination", "limit", "cursor"])?;
    let query = EventQuery {
        status: parameters.get("status").map(status).transpose()?,
        destination: parameters.get("destination").map(destination).transpose()?,
    };
    let found = service.store.events(&query, &wanted(&parameters, Listing::Events)?).await?;
    Ok(Json(EventsBody {
        events: found.items.iter().map(EventBody::from).collect(),
        next_cursor: found.next.map(|cursor| encode(Listing::Events, cursor)),
    }))
}

fn status(word: &str) -> Result<DeliveryStatus, ApiError> {
    let shown: String = word.chars().take(64).collect();
    DeliveryStatus::from_word(word).ok_or_else(|| {
        refused("status", format!("status must be pending, delivered or failed, got {shown:?}"))
    })
}

fn destination(text: &str) -> Result<DestinationUrl, ApiError> {
    DestinationUrl::parse(text)
        .map_err(|error| refused("destination", error.to_string().replace("destination_url", "destination")))
}

/// Show an event
///
/// With its attempts, with what operators did, and in words why it is where it is. A producer may read it too, but not who
/// acted on it: `audit` is left out, and `explanation` names nobody.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/events/{event_id}", tag = "Events", operation_id = "getEvent",
    params(("event_id" = String, Path, description = "The event's id, percent-encoded", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b")),
    responses(
        (status = 200, description = "The event", body = EventDetailBody),
    ),
)]
pub(crate) async fn event(
    State(service): State<Arc<Service>>,
    caller: Allowed<ReadingOne>,
    NamedEvent(event_id): NamedEvent,
    uri: Uri,
) -> Result<Json<EventDetailBody>, ApiError> {
    Parameters::of(&uri, &[])?;
    let EventDetail { mut event, history, audit } = service.store.event(&event_id).await?;
    let audit = caller.sees_operators().then_some(audit);
    if audit.is_none() {
        event.manual_last = None;
    }
    let destination = match event.status {
        DeliveryStatus::Pending => match service.store.destination(event.destination_id).await {
            // Gone since the event was read.
            Err(StoreError::DestinationNotFound { .. }) => None,
            found => Some(found?),
        },
        // What is over waits for nobody.
        DeliveryStatus::Delivered | DeliveryStatus::Failed => None,
    };
    Ok(Json(EventDetailBody {
        event: EventBody::from(&event),
        explanation: explain(&event, destination.as_ref(), &service.retry_policy),
        history: latest(history).map(AttemptBody::from).collect(),
        audit: audit.map(|audit| latest(audit).map(AuditBody::from).collect()),
    }))
}

fn latest<T>(mut all: Vec<T>) -> impl Iterator<Item = T> {
    all.split_off(all.len().saturating_sub(LISTED_MAX)).into_iter()
}
