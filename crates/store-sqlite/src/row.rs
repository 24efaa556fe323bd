//! Decoding of rows into domain values.

use posthaste_domain::{
    ApplicationId, DeliveryStatus, DestinationId, DestinationUrl, EventId, EventKey, FailureKind, MessageId,
    Timestamp, WorkerId,
};
use posthaste_store::{AuditView, EventView, ManualAction};
use rusqlite::types::{FromSqlError, Type};
use rusqlite::{Connection, Row};
use uuid::Uuid;

/// The columns of `webhook_outbox_events v` that [`event_view`] reads, in its order. None of them reads
/// `webhook_messages`, where the payloads are.
macro_rules! event_columns {
    () => {
        "v.id, v.event_id, v.message_id, v.destination_id, v.destination_url, v.event_type,
         v.payment_request_id, v.webhook_id, v.session_id,
         v.delivery_status, v.failure_kind, v.attempts, v.max_attempts, v.claims, v.lost_leases,
         v.next_attempt_at, v.lease_owner, v.lease_until, v.last_error, v.last_attempted_at, v.delivered_at,
         v.manual_last_action, v.manual_last_actor, v.manual_last_at, v.created_at, v.updated_at,
         v.manual_last_reason, v.stored_by, v.app_id, v.replay_of"
    };
}
pub(crate) use event_columns;

/// One event by its key. Every join of the view is by key or index.
pub(crate) const EVENT: &str =
    concat!("SELECT ", event_columns!(), " FROM webhook_outbox_events v WHERE v.id = ?1");

pub(crate) fn read_event(db: &Connection, key: EventKey) -> rusqlite::Result<EventView> {
    db.prepare_cached(EVENT)?.query_row([key.0], event_view)
}

/// Decodes the columns `action, actor, at, reason` of an audit row.
pub(crate) fn audit(row: &Row<'_>) -> rusqlite::Result<AuditView> {
    let action = decode(row, 0, ManualAction::from_name)?;
    Ok(AuditView { action, actor: row.get(1)?, at: timestamp(row, 2)?, reason: row.get(3)? })
}

pub(crate) fn event_view(row: &Row<'_>) -> rusqlite::Result<EventView> {
    Ok(EventView {
        key: EventKey(row.get(0)?),
        event_id: EventId::from_stored(row.get(1)?),
        message_id: MessageId::from_uuid(uuid(row, 2)?),
        app: application(row, 28)?,
        destination_id: DestinationId(row.get(3)?),
        destination_url: DestinationUrl::from_stored(row.get(4)?),
        event_type: row.get(5)?,
        payment_request_id: row.get(6)?,
        webhook_id: row.get(7)?,
        session_id: row.get(8)?,
        stored_by: row.get(27)?,
        status: decode(row, 9, DeliveryStatus::from_name)?,
        failure_kind: decode_optional(row, 10, FailureKind::from_name)?,
        attempts: row.get(11)?,
        max_attempts: row.get(12)?,
        claims: row.get(13)?,
        lost_leases: row.get(14)?,
        next_attempt_at: optional_timestamp(row, 15)?,
        lease_owner: row.get::<_, Option<String>>(16)?.map(WorkerId::from_stored),
        lease_until: optional_timestamp(row, 17)?,
        last_error: row.get(18)?,
        last_attempted_at: optional_timestamp(row, 19)?,
        delivered_at: optional_timestamp(row, 20)?,
        manual_last: manual_last(row)?,
        replay_of: row.get::<_, Option<String>>(29)?.map(EventId::from_stored),
        created_at: timestamp(row, 24)?,
        updated_at: timestamp(row, 25)?,
    })
}

/// Decodes `app_id`, which is 0 for an event or a destination without an application.
pub(crate) fn application(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<ApplicationId>> {
    Ok(Some(row.get(column)?).filter(|id| *id > 0).map(ApplicationId))
}

fn manual_last(row: &Row<'_>) -> rusqlite::Result<Option<AuditView>> {
    let Some(action) = decode_optional(row, 21, ManualAction::from_name)? else {
        return Ok(None);
    };
    Ok(Some(AuditView { action, actor: row.get(22)?, at: timestamp(row, 23)?, reason: row.get(26)? }))
}

pub(crate) fn timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

pub(crate) fn optional_timestamp(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

pub(crate) fn unsigned(row: &Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

pub(crate) fn uuid(row: &Row<'_>, column: usize) -> rusqlite::Result<Uuid> {
    row.get(column).map(Uuid::from_bytes)
}

/// Decodes a value stored under its name. Fails on an unknown name, which another program or a newer version of
/// Posthaste wrote.
pub(crate) fn decode<T>(
    row: &Row<'_>,
    column: usize,
    from_name: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<T> {
    let name = row.get_ref(column)?.as_str()?;
    from_name(name).ok_or_else(|| unknown_name(column, name))
}

/// Decodes a value stored under its name, or NULL.
pub(crate) fn decode_optional<T>(
    row: &Row<'_>,
    column: usize,
    from_name: impl Fn(&str) -> Option<T>,
) -> rusqlite::Result<Option<T>> {
    match row.get_ref(column)?.as_str_or_null()? {
        None => Ok(None),
        Some(name) => from_name(name).map(Some).ok_or_else(|| unknown_name(column, name)),
    }
}

fn unknown_name(column: usize, name: &str) -> rusqlite::Error {
    let error = FromSqlError::Other(format!("this version of Posthaste does not know {name:?}").into());
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(error))
}
