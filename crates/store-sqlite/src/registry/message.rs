//! Messages: reads and lists. No list reads the payloads unless the caller asks for them.

use bytes::Bytes;
use posthaste_domain::{
    ApplicationId, Channel, DestinationId, EndpointId, EventId, EventKey, EventTypeName, MessageId,
    MessageRef, Timestamp,
};
use posthaste_store::{
    EndpointMessage, List, ListRequest, MessageContent, MessageDestination, MessageFilter, MessageView,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use super::list::KeyRange;
use super::{MessageKey, endpoint, find_message, names, uid};
use crate::error::CallError;
use crate::row;

/// A message with its key.
pub(super) struct StoredMessage {
    pub(super) key: MessageKey,
    pub(super) view: MessageView,
}

/// The columns of `webhook_messages m` that [`from_row`] reads, in its order. The parameter `?4` says whether to read the
/// payload.
macro_rules! message_columns {
    () => {
        "m.key, m.id, m.app_id, m.uid, m.event_type, m.channels, m.tags, m.created_at, m.deliver_at,
         m.payload IS NULL, CASE WHEN ?4 THEN m.payload END"
    };
}

fn from_row(row: &Row<'_>) -> rusqlite::Result<StoredMessage> {
    let is_expunged: bool = row.get(9)?;
    let content = match row.get_ref(10)?.as_blob_or_null()? {
        _ if is_expunged => MessageContent::Expunged,
        None => MessageContent::Omitted,
        Some(payload) => MessageContent::Payload(Bytes::copy_from_slice(payload)),
    };
    let view = MessageView {
        id: MessageId::from_uuid(row::uuid(row, 1)?),
        app: ApplicationId(row.get(2)?),
        uid: uid(row, 3)?,
        event_type: EventTypeName::from_stored(row.get(4)?),
        channels: names(row, 5, Channel::from_stored)?.unwrap_or_default(),
        tags: names(row, 6, |tag| tag)?.unwrap_or_default(),
        content,
        created_at: row::timestamp(row, 7)?,
        deliver_at: row::optional_timestamp(row, 8)?,
    };
    Ok(StoredMessage { key: MessageKey(row.get(0)?), view })
}

/// Reads a message that exists.
pub(super) fn read(db: &Connection, key: MessageKey, with_content: bool) -> rusqlite::Result<StoredMessage> {
    // The unused parameters keep the numbers of the columns' own.
    let sql = concat!(
        "SELECT ",
        message_columns!(),
        " FROM webhook_messages m WHERE m.key = ?1 AND ?2 IS NULL AND ?3 IS NULL"
    );
    db.prepare_cached(sql)?.query_row((key.0, None::<i64>, None::<i64>, with_content), from_row)
}

pub(super) fn read_by_id(
    db: &Connection,
    app: ApplicationId,
    id: MessageId,
    with_content: bool,
) -> Result<StoredMessage, CallError> {
    Ok(read(db, find_message(db, app, &MessageRef::Id(id))?, with_content)?)
}

/// Builds the statement that reads messages of an application within a range of keys. Index: webhook_messages_app.
pub(super) fn list_sql(order: &str) -> String {
    format!(
        "SELECT {} FROM webhook_messages m
         WHERE m.app_id = ?1 AND m.app_id > 0 AND m.key > ?2 AND m.key < ?3 ORDER BY m.key {order}",
        message_columns!()
    )
}

/// Builds the same statement for the messages that the endpoint `?5` gets. Index of the events: webhook_events_message.
pub(super) fn list_of_endpoint_sql(order: &str) -> String {
    format!(
        "SELECT {} FROM webhook_messages m
         WHERE m.app_id = ?1 AND m.app_id > 0 AND m.key > ?2 AND m.key < ?3
           AND EXISTS (SELECT 1 FROM webhook_events e
                       WHERE e.message_key = m.key AND e.destination_id = ?5 AND e.app_id > 0)
         ORDER BY m.key {order}",
        message_columns!()
    )
}

/// Translates the message that a page begins after or ends before into its key. `None` if there is no such message.
fn key_range(
    db: &Connection,
    app: ApplicationId,
    request: &ListRequest<MessageId>,
) -> Result<Option<KeyRange<MessageKey>>, CallError> {
    let mut failure = None;
    let keys = request.try_map(|id| match find_message(db, app, &MessageRef::Id(*id)) {
        Ok(key) => Some(key),
        Err(CallError::Refused(_)) => None,
        Err(error) => {
            failure = Some(error);
            None
        }
    });
    match failure {
        Some(error) => Err(error),
        None => Ok(keys.map(|keys| KeyRange::descending(&keys, MessageKey(i64::MIN), MessageKey(i64::MAX)))),
    }
}

pub(super) fn list(
    db: &Connection,
    app: ApplicationId,
    filter: &MessageFilter,
    request: &ListRequest<MessageId>,
    with_content: bool,
) -> Result<List<MessageView>, CallError> {
    let Some(range) = key_range(db, app, request)? else { return Ok(List::empty()) };
    let mut listed = db.prepare_cached(&list_sql(range.order()))?;
    let rows = listed.query_map((app.0, range.low.0, range.high.0, with_content), from_row)?;
    let views = rows.map(|row| row.map(|message| message.view));
    Ok(range.page(views.filter(|view| view.as_ref().map_or(true, |view| filter.includes(view))))?)
}

pub(super) fn list_of_endpoint(
    db: &Connection,
    app: ApplicationId,
    endpoint: DestinationId,
    filter: &MessageFilter,
    request: &ListRequest<MessageId>,
    with_content: bool,
) -> Result<List<EndpointMessage>, CallError> {
    let Some(range) = key_range(db, app, request)? else { return Ok(List::empty()) };
    let mut listed = db.prepare_cached(&list_of_endpoint_sql(range.order()))?;
    let bounds = (app.0, range.low.0, range.high.0, with_content, endpoint.0);
    let items = listed.query_map(bounds, from_row)?.filter_map(|row| {
        let included = row.map(|message| Some(message.view).filter(|view| filter.includes(view)));
        let message = included.transpose()?;
        let item = message.and_then(|message| {
            let event = first_event(db, message.id, endpoint)?;
            let event = event.map(|key| row::read_event(db, key)).transpose()?;
            Ok(event.map(|event| EndpointMessage { message, event }))
        });
        item.transpose()
    });
    Ok(range.page(items)?)
}

/// Finds the first event of a message for an endpoint. Index: webhook_events_event_id.
fn first_event(
    db: &Connection,
    message: MessageId,
    destination: DestinationId,
) -> rusqlite::Result<Option<EventKey>> {
    find_event(db, &EventId::of_fan_out(message, destination))
}

/// Finds the key of an event. Index: webhook_events_event_id.
pub(super) fn find_event(db: &Connection, event_id: &EventId) -> rusqlite::Result<Option<EventKey>> {
    db.prepare_cached("SELECT id FROM webhook_events WHERE event_id = ?1")?
        .query_row([event_id.as_str()], |row| row.get(0).map(EventKey))
        .optional()
}

/// Builds the statement that reads the first events of a message by endpoint, without those of deleted endpoints. Index:
/// webhook_events_message; the endpoints by primary key.
pub(super) fn destinations_sql(order: &str) -> String {
    format!(
        "SELECT e.id, e.destination_id FROM webhook_events e
         WHERE e.message_key = ?1 AND e.app_id > 0 AND e.destination_id > ?2 AND e.destination_id < ?3
           AND e.event_id = ?4 || '-' || e.destination_id
           AND EXISTS (SELECT 1 FROM webhook_endpoints p
                       WHERE p.destination_id = e.destination_id AND p.deleted_at IS NULL)
         ORDER BY e.destination_id {order}"
    )
}

pub(super) fn destinations(
    db: &Connection,
    key: MessageKey,
    request: &ListRequest<EndpointId>,
) -> Result<List<MessageDestination>, CallError> {
    let id = read(db, key, false)?.view.id;
    let bound = |id| EndpointId(DestinationId(id));
    let range = KeyRange::descending(request, bound(i64::MIN), bound(i64::MAX));
    let mut listed = db.prepare_cached(&destinations_sql(range.order()))?;
    let bounds = (key.0, range.low.0.0, range.high.0.0, id.to_string());
    let rows = listed.query_map(bounds, |row| {
        let (event, destination) = (EventKey(row.get(0)?), DestinationId(row.get(1)?));
        Ok(MessageDestination {
            endpoint: endpoint::read(db, destination)?,
            event: row::read_event(db, event)?,
        })
    })?;
    Ok(range.page(rows)?)
}

/// What the events of a message copy from it.
pub(super) struct MessageDetails {
    pub(super) id: MessageId,
    pub(super) app: ApplicationId,
    pub(super) event_type: EventTypeName,
    pub(super) channels: std::collections::BTreeSet<Channel>,
    pub(super) max_attempts: u32,
    pub(super) created_at: Timestamp,
    pub(super) deliver_at: Option<Timestamp>,
    pub(super) is_expunged: bool,
}

pub(super) fn read_details(db: &Connection, key: MessageKey) -> rusqlite::Result<MessageDetails> {
    db.prepare_cached(
        "SELECT id, app_id, event_type, channels, max_attempts, created_at, deliver_at, payload IS NULL
         FROM webhook_messages WHERE key = ?1",
    )?
    .query_row([key.0], |row| {
        Ok(MessageDetails {
            id: MessageId::from_uuid(row::uuid(row, 0)?),
            app: ApplicationId(row.get(1)?),
            event_type: EventTypeName::from_stored(row.get(2)?),
            channels: names(row, 3, Channel::from_stored)?.unwrap_or_default(),
            max_attempts: row.get(4)?,
            created_at: row::timestamp(row, 5)?,
            deliver_at: row::optional_timestamp(row, 6)?,
            is_expunged: row.get(7)?,
        })
    })
}
