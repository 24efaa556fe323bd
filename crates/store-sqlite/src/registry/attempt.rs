//! Attempts of messages and endpoints, most recently recorded first.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use posthaste_domain::{
    ApplicationId, AttemptId, Channel, DestinationId, DestinationUrl, EndpointId, EventId, EventKey,
    EventTypeName, MessageId,
};
use posthaste_store::{AttemptFilter, AttemptRecord, AttemptsOf, List, ListRequest, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::list::KeyRange;
use super::{MessageKey, find_endpoint, find_message, names};
use crate::error::CallError;
use crate::read::{attempt_columns, attempt_view};
use crate::row;

/// The position of an attempt in a list: when it was recorded, its event, and its position within the event.
type Position = (i64, i64, i64);

const FIRST: Position = (i64::MIN, i64::MIN, i64::MIN);
const LAST: Position = (i64::MAX, i64::MAX, i64::MAX);

/// The columns that [`from_row`] reads, and the tables that the attempts `a` are joined with, each by primary key.
macro_rules! attempts {
    ($from:literal) => {
        concat!(
            "SELECT ",
            attempt_columns!(),
            ", a.recorded_at, a.event_key, a.position, e.event_id, e.message_id, e.event_type, e.destination_id, d.url,
               (SELECT m.channels FROM webhook_messages m WHERE m.key = e.message_key) ",
            $from
        )
    };
}

/// An attempt in a list.
struct ListedAttempt {
    position: Position,
    record: AttemptRecord,
    channels: BTreeSet<Channel>,
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<ListedAttempt> {
    let attempt = attempt_view(row)?;
    let position: Position = (row.get(10)?, row.get(11)?, row.get(12)?);
    let record = AttemptRecord {
        id: AttemptId { event: EventKey(position.1), token: attempt.token },
        event_id: EventId::from_stored(row.get(13)?),
        message: MessageId::from_uuid(row::uuid(row, 14)?),
        event_type: EventTypeName::from_stored(row.get(15)?),
        endpoint: EndpointId(DestinationId(row.get(16)?)),
        url: DestinationUrl::from_stored(row.get(17)?),
        attempt,
    };
    let channels = names(row, 18, Channel::from_stored)?.unwrap_or_default();
    Ok(ListedAttempt { position, record, channels })
}

/// Builds the statement that reads attempts of an endpoint within a range of positions. Index: webhook_attempts_endpoint.
pub(super) fn of_endpoint_sql(order: &str) -> String {
    let attempts = attempts!(
        "FROM webhook_attempts a INDEXED BY webhook_attempts_endpoint
         CROSS JOIN webhook_events e ON e.id = a.event_key
         CROSS JOIN webhook_destinations d ON d.id = e.destination_id
         WHERE a.endpoint_id = ?1 AND (a.recorded_at, a.event_key, a.position) > (?2, ?3, ?4)
           AND (a.recorded_at, a.event_key, a.position) < (?5, ?6, ?7)"
    );
    format!("{attempts} ORDER BY a.recorded_at {order}, a.event_key {order}, a.position {order}")
}

/// Attempts of the events of a message. Index: webhook_events_message, and the primary key of webhook_attempts.
pub(super) const OF_MESSAGE: &str = attempts!(
    "FROM webhook_events e
     CROSS JOIN webhook_attempts a ON a.event_key = e.id
     CROSS JOIN webhook_destinations d ON d.id = e.destination_id
     WHERE e.message_key = ?1 AND e.app_id > 0"
);

pub(super) fn list(
    db: &Connection,
    app: ApplicationId,
    filter: &AttemptFilter,
    request: &ListRequest<AttemptId>,
) -> Result<List<AttemptRecord>, CallError> {
    let source = match &filter.of {
        AttemptsOf::Message(message) => Source::Message(find_message(db, app, message)?),
        AttemptsOf::Endpoint(endpoint) => Source::Endpoint(find_endpoint(db, app, endpoint)?),
    };
    let only = match &filter.endpoint {
        Some(endpoint) => Some(find_endpoint(db, app, endpoint)?),
        None => None,
    };
    let mut failure = None;
    let positions = request.try_map(|id| {
        position_of(db, *id).unwrap_or_else(|error| {
            failure = Some(error);
            None
        })
    });
    if let Some(error) = failure {
        return Err(error.into());
    }
    let Some(positions) = positions else { return Ok(List::empty()) };
    let is_included = |listed: &ListedAttempt| {
        only.is_none_or(|only| listed.record.endpoint.0 == only)
            && filter.includes(&listed.record, &listed.channels)
    };
    Ok(match source {
        Source::Endpoint(endpoint) => list_of_endpoint(db, endpoint, &positions, is_included)?,
        Source::Message(message) => list_of_message(db, message, &positions, is_included)?,
    })
}

/// Whose attempts are listed.
enum Source {
    Message(MessageKey),
    Endpoint(DestinationId),
}

fn list_of_endpoint(
    db: &Connection,
    endpoint: DestinationId,
    request: &ListRequest<Position>,
    is_included: impl Fn(&ListedAttempt) -> bool,
) -> rusqlite::Result<List<AttemptRecord>> {
    let range = KeyRange::descending(request, FIRST, LAST);
    let mut listed = db.prepare_cached(&of_endpoint_sql(range.order()))?;
    let (low, high) = (range.low, range.high);
    let bounds = (endpoint.0, low.0, low.1, low.2, high.0, high.1, high.2);
    let rows = listed.query_map(bounds, from_row)?;
    let included = rows.filter(|row| row.as_ref().map_or(true, &is_included));
    range.page(included.map(|row| row.map(|listed| listed.record)))
}

/// Lists the attempts of a message. They are few: a message has some attempts per endpoint.
fn list_of_message(
    db: &Connection,
    message: MessageKey,
    request: &ListRequest<Position>,
    is_included: impl Fn(&ListedAttempt) -> bool,
) -> rusqlite::Result<List<AttemptRecord>> {
    let mut listed = db.prepare_cached(OF_MESSAGE)?;
    let rows = listed.query_map([message.0], from_row)?;
    let mut attempts: Vec<ListedAttempt> = rows.collect::<Result<_, _>>()?;
    attempts.retain(is_included);
    attempts.sort_by_key(|listed| Reverse(listed.position));
    let page = request.cut(attempts, |listed, from| Reverse(listed.position).cmp(&Reverse(*from)));
    Ok(List { items: page.items.into_iter().map(|listed| listed.record).collect(), done: page.done })
}

fn position_of(db: &Connection, id: AttemptId) -> rusqlite::Result<Option<Position>> {
    db.prepare_cached(
        "SELECT recorded_at, event_key, position FROM webhook_attempts WHERE event_key = ?1 AND lease_token = ?2",
    )?
    .query_row((id.event.0, id.token.as_uuid().into_bytes()), |row| {
        Ok((row.get(0)?, row.get(1)?, row.get(2)?))
    })
    .optional()
}

/// Finds one attempt of a message.
pub(super) fn find(db: &Connection, message: MessageKey, id: AttemptId) -> Result<AttemptRecord, CallError> {
    let found = db
        .prepare_cached(attempts!(
            "FROM webhook_attempts a
             CROSS JOIN webhook_events e ON e.id = a.event_key
             CROSS JOIN webhook_destinations d ON d.id = e.destination_id
             WHERE a.event_key = ?1 AND a.lease_token = ?2 AND e.message_key = ?3 AND e.app_id > 0"
        ))?
        .query_row((id.event.0, id.token.as_uuid().into_bytes(), message.0), from_row)
        .optional()?;
    let not_found = || StoreError::AttemptNotFound { attempt: id.to_string() };
    Ok(found.map(|listed| listed.record).ok_or_else(not_found)?)
}
