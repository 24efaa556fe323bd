//! Events as operators see them, read from the view that joins an event with its state.

use posthaste_domain::{
    ApplicationId, DeliveryStatus, DestinationId, DestinationUrl, EventId, EventKey, FailureKind, MessageId,
    WorkerId,
};
use posthaste_store::{AuditView, EventView, ManualAction};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::convert::{PgTimestamp, unsigned};
use crate::session::Sql;

/// The columns of `app.webhook_outbox_events v` that [`parse_event`] reads, in its order.
macro_rules! event_columns {
    () => {
        "v.id, v.event_id, v.message_id, v.destination_id, v.destination_url, v.event_type, v.payment_request_id, \
         v.webhook_id, v.session_id, v.delivery_status, v.failure_kind, v.attempts, v.max_attempts, v.claims, \
         v.lost_leases, v.next_attempt_at, v.lease_owner, v.lease_until, v.last_error, v.last_attempted_at, \
         v.delivered_at, v.manual_last_action, v.manual_last_actor, v.manual_last_at, v.created_at, v.updated_at, \
         v.manual_last_reason, v.stored_by, v.app_id, v.replay_of"
    };
}

pub(crate) use event_columns;

/// The number of columns of `event_columns!`.
pub(crate) const EVENT_COLUMN_COUNT: usize = 30;

/// Reads one event by its id. Uses index webhook_events_event_id.
pub(crate) static SELECT_EVENT: Sql = Sql {
    text: concat!("SELECT ", event_columns!(), " FROM app.webhook_outbox_events v WHERE v.event_id = $1"),
    types: &[Type::TEXT],
};

/// Parses a row of `event_columns!`.
pub(crate) fn parse_event(row: &Row) -> Result<EventView, tokio_postgres::Error> {
    parse_event_at(row, 0)
}

/// Parses the columns of `event_columns!`, the first of which has this index.
pub(crate) fn parse_event_at(row: &Row, first: usize) -> Result<EventView, tokio_postgres::Error> {
    let row = Columns { row, first };
    let timestamp = |index| Ok(row.try_get::<Option<PgTimestamp>>(index)?.map(|PgTimestamp(at)| at));
    let text = |index| row.try_get::<Option<&str>>(index);
    let manual_last = match (text(21)?.and_then(ManualAction::from_name), text(22)?, timestamp(23)?) {
        (Some(action), Some(actor), Some(at)) => {
            Some(AuditView { action, actor: actor.to_owned(), at, reason: row.try_get(26)? })
        }
        _ => None,
    };
    Ok(EventView {
        key: EventKey(row.try_get(0)?),
        event_id: EventId::from_stored(row.try_get(1)?),
        message_id: MessageId::from_uuid(row.try_get(2)?),
        app: Some(row.try_get(28)?).filter(|id| *id != 0).map(ApplicationId),
        destination_id: DestinationId(row.try_get(3)?),
        destination_url: DestinationUrl::from_stored(row.try_get(4)?),
        event_type: row.try_get(5)?,
        payment_request_id: row.try_get(6)?,
        webhook_id: row.try_get(7)?,
        session_id: row.try_get(8)?,
        stored_by: row.try_get(27)?,
        status: text(9)?.and_then(DeliveryStatus::from_name).unwrap_or(DeliveryStatus::Pending),
        failure_kind: text(10)?.and_then(FailureKind::from_name),
        attempts: unsigned(row.try_get(11)?),
        max_attempts: unsigned(row.try_get(12)?),
        claims: unsigned(row.try_get(13)?),
        lost_leases: unsigned(row.try_get(14)?),
        next_attempt_at: timestamp(15)?,
        lease_owner: row.try_get::<Option<String>>(16)?.map(WorkerId::from_stored),
        lease_until: timestamp(17)?,
        last_error: row.try_get(18)?,
        last_attempted_at: timestamp(19)?,
        delivered_at: timestamp(20)?,
        manual_last,
        replay_of: row.try_get::<Option<String>>(29)?.map(EventId::from_stored),
        created_at: row.try_get::<PgTimestamp>(24)?.0,
        updated_at: row.try_get::<PgTimestamp>(25)?.0,
    })
}

/// The columns of a row from one on.
struct Columns<'a> {
    row: &'a Row,
    first: usize,
}

impl<'a> Columns<'a> {
    fn try_get<T: FromSql<'a>>(&self, index: usize) -> Result<T, tokio_postgres::Error> {
        self.row.try_get(self.first + index)
    }
}
