//! Lists events of any state, and shows one event with its history.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use http::Uri;
use posthaste_domain::{DeliveryStatus, EndpointId, EventId};
use posthaste_store::{EventDetail, EventQuery, StoreError};
use serde::Serialize;
use utoipa::ToSchema;

use crate::access::{Authorized, ReadAll, ReadOneEvent};
use crate::api::ApiState;
use crate::error::ApiError;
use crate::event::{AttemptBody, AuditEntryBody, EventBody, EventDetailBody, EventIdPath, schema_enum};
use crate::explain::{LateResult, explain};
use crate::filter::{FILTER_PARAMETERS, FilterRequest, NOT_CANCELLED, Place, accept_text};
use crate::page::{Listing, encode_cursor, parse_page_request};
use crate::producer_view::ProducerView;
use crate::query::{QueryParameters, excerpt, invalid_parameter};
use crate::timestamp::Rfc3339;

/// Maximum number of attempts, and of operator actions, shown for one event.
const HISTORY_MAX: usize = 100;
/// The parameters of a list of events beside those that it shares with the list of dead letters.
const OWN_PARAMETERS: [&str; 8] = [
    "status",
    "endpoint_id",
    "event_id",
    "payment_request_id",
    "session_id",
    "webhook_id",
    "limit",
    "cursor",
];

schema_enum! {
    /// A delivery status, or `retrying`: pending with at least one attempt.
    StatusFilterSchema as EventStatusFilter { Pending, Retrying, Delivered, Failed }
}
/// The value of `status` that selects pending events with at least one attempt.
const RETRYING: &str = "retrying";

/// A page of events.
#[derive(Serialize, ToSchema)]
#[schema(as = EventPage)]
pub(crate) struct EventPage {
    events: Vec<EventBody>,
    /// Pass it as `cursor` to get the next page; null on the last page. A page may be short, or empty, and still have a next one.
    next_cursor: Option<String>,
    /// The time up to which, going back, events were examined for this page and the pages before; null on the last page.
    #[schema(value_type = Option<String>, format = DateTime)]
    searched_until: Option<Rfc3339>,
}

/// List events
///
/// Lists events of any state, newest first. Parameters combine: an event must meet all of them.
///
/// An index serves `event_id`, `payment_request_id`, `session_id`, `webhook_id`, `destination` and `status`. For the other
/// conditions, a page examines at most 10,000 events. It may be short, or empty, although more follow: only a `next_cursor` of null is
/// the end. `until` starts the search near its time.
#[utoipa::path(
    get, path = "/v1/webhook-outbox/events", tag = "Events", operation_id = "listEvents",
    params(
        ("status" = inline(Option<StatusFilterSchema>), Query, description = "Only events in this state; `retrying` are the pending events with at least one attempt"),
        ("destination" = Option<String>, Query, description = "Only events to this URL, or of the endpoint with this id", example = "https://receiver.example/hook"),
        ("endpoint_id" = Option<String>, Query, description = "Only events of this endpoint", example = "ep_0000000000000011"),
        ("app" = Option<String>, Query, description = "Only events of the application with this id or uid", example = "customer-17"),
        ("event_type" = Option<String>, Query, description = "Only events of this type", example = "invoice.paid"),
        ("failure_kind" = Option<crate::event::FailureKindSchema>, Query, description = "Only failed events of this kind"),
        ("error_class" = Option<String>, Query, description = "Only pending and failed events with this last error: `timeout`, `dns`, `blocked_address`, `connect`, `tls`, `certificate`, `reset`, `broken_response`, `unsendable`, `panic`, an HTTP status such as `http_503`, or all of one hundred such as `http_5xx`", example = "http_5xx"),
        ("event_id" = Option<String>, Query, description = "Only the event with this id", example = "msg_01890a5d96dc7c1a8f2b3c4d5e6f7a8b"),
        ("payment_request_id" = Option<String>, Query, description = "Only events with this reference of the producer", example = "pr_17"),
        ("session_id" = Option<String>, Query, description = "Only events with this reference of the producer", example = "sess_17"),
        ("webhook_id" = Option<String>, Query, description = "Only events with this reference of the producer", example = "wh_17"),
        ("since" = Option<String>, Query, description = "Only events created at this time or later (RFC 3339)", example = "2026-01-31T11:29:00Z"),
        ("until" = Option<String>, Query, description = "Only events created at this time or earlier (RFC 3339)", example = "2026-01-31T12:00:00Z"),
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
    let parameters = QueryParameters::parse(&uri, &[&FILTER_PARAMETERS[..], &OWN_PARAMETERS].concat())?;
    let query = parse_query(&state, &parameters).await?;
    let request = parse_page_request(&parameters, Listing::Events)?;
    let page = state.store.events(&query, &request).await?;
    Ok(Json(EventPage {
        events: page.items.iter().map(EventBody::from).collect(),
        next_cursor: page.next.map(|cursor| encode_cursor(Listing::Events, cursor)),
        searched_until: page.next.map(|cursor| cursor.at.into()),
    }))
}

async fn parse_query(state: &ApiState, parameters: &QueryParameters) -> Result<EventQuery, ApiError> {
    let text = |name| {
        let given = parameters.get(name).map(|text| accept_text(name, text.to_owned(), Place::Query));
        given.transpose()
    };
    let retrying = parameters.get("status") == Some(RETRYING);
    let status = parameters.get("status").filter(|_| !retrying).map(parse_status).transpose()?;
    let endpoint = parameters.get("endpoint_id").map(parse_endpoint).transpose()?;
    let event_id = parameters.get("event_id").map(parse_event_id).transpose()?;
    let (payment_request_id, session_id, webhook_id) =
        (text("payment_request_id")?, text("session_id")?, text("webhook_id")?);
    // The webhook id of an endpoint's event is the id of the endpoint.
    let webhook_endpoint = webhook_id.as_deref().and_then(EndpointId::parse);
    if parameters.get("failure_kind") == Some(NOT_CANCELLED) {
        let message = "failure_kind must be one kind in a list of events; not_cancelled is for the list of dead letters";
        return Err(invalid_parameter("failure_kind", message));
    }
    let filter = FilterRequest::of_query(parameters)?.accept(Place::Query)?;
    let filter = filter.resolve(state, Place::Query).await?;
    let mut endpoints = [endpoint, filter.endpoint, webhook_endpoint].into_iter().flatten();
    let endpoint = endpoints.next();
    if endpoints.any(|other| Some(other) != endpoint) {
        let message = "endpoint_id, destination and webhook_id must not name different endpoints";
        return Err(invalid_parameter("endpoint_id", message));
    }
    Ok(EventQuery {
        event_id,
        status,
        retrying,
        destination: filter.destination,
        endpoint,
        app: filter.app,
        event_type: filter.event_type,
        failure_kind: filter.failure_kind,
        error: filter.error,
        payment_request_id,
        session_id,
        webhook_id: webhook_id.filter(|_| webhook_endpoint.is_none()),
        since: filter.since,
        until: filter.until,
        ..EventQuery::default()
    })
}

fn parse_status(text: &str) -> Result<DeliveryStatus, ApiError> {
    DeliveryStatus::from_name(text).ok_or_else(|| {
        let shown = excerpt(text);
        invalid_parameter(
            "status",
            format!("status must be pending, retrying, delivered or failed, got {shown:?}"),
        )
    })
}

fn parse_event_id(text: &str) -> Result<EventId, ApiError> {
    EventId::new(text).map_err(|error| invalid_parameter("event_id", error.to_string()))
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
