//! Attempts of messages and endpoints.

use posthaste_domain::{
    ApplicationId, AttemptId, Channel, DestinationId, DestinationUrl, EndpointId, EventId, EventTypeName,
    MessageId, Timestamp,
};
use posthaste_store::{AttemptFilter, AttemptRecord, AttemptsOf, List, ListFrom, ListRequest, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::list::{ListSql, PageQuery};
use super::{Call, find_endpoint, find_message};
use crate::convert::{PgTimestamp, lease_claim};
use crate::read::parse_attempt;
use crate::session::{Session, Sql};

/// The columns of an attempt `a`, its event `e` and the destination `d` that [`parse`] reads. The first eleven are those of an
/// attempt history.
macro_rules! attempt_columns {
    () => {
        "a.lease_claim, a.attempt, a.trigger, a.started_at, a.duration_us, a.http_status, a.error_class, a.excerpt, a.worker_id, \
         a.applied, a.event_key, e.event_id, e.message_id, e.event_type, e.destination_id, d.url"
    };
}

macro_rules! joined_attempts {
    () => {
        " FROM app.webhook_attempts a
          JOIN app.webhook_events e ON e.id = a.event_key
          JOIN app.webhook_messages m ON m.key = e.message_key
          JOIN app.webhook_destinations d ON d.id = e.destination_id"
    };
}

/// Declares one direction of a list of attempts. `$of` restricts it to those of $1. The position is $2, in microseconds since the
/// epoch, and the key of the event $3; $4 is the number of rows. $5 is an endpoint, $6 whether the attempt succeeded, $7 the first
/// digit of its status, $8 a channel, $9 event types, $10 and $11 times in microseconds since the epoch.
macro_rules! list_attempts {
    ($of:literal, $operator:literal, $order:literal) => {
        Sql {
            text: concat!(
                "SELECT ",
                attempt_columns!(),
                joined_attempts!(),
                " WHERE ",
                $of,
                " AND (a.recorded_at, a.event_key) ",
                $operator,
                " (timestamptz 'epoch' + $2 * interval '1 microsecond', $3)
     AND ($5::bigint IS NULL OR e.destination_id = $5)
     AND ($6::boolean IS NULL OR coalesce(a.http_status BETWEEN 200 AND 299, false) = $6)
     AND ($7::integer IS NULL OR coalesce(a.http_status, 0) / 100 = $7)
     AND ($8::text IS NULL OR $8 = ANY (m.channels)) AND ($9::text[] IS NULL OR e.event_type = ANY ($9))
     AND ($10::bigint IS NULL OR a.started_at < timestamptz 'epoch' + $10 * interval '1 microsecond')
     AND ($11::bigint IS NULL OR a.started_at > timestamptz 'epoch' + $11 * interval '1 microsecond')
     ORDER BY a.recorded_at ",
                $order,
                ", a.event_key ",
                $order,
                " LIMIT $4"
            ),
            types: &[
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::INT8,
                Type::BOOL,
                Type::INT4,
                Type::TEXT,
                Type::TEXT_ARRAY,
                Type::INT8,
                Type::INT8,
            ],
        }
    };
}

/// Uses index webhook_attempts_endpoint, in every partition.
static OF_ENDPOINT: ListSql = ListSql {
    forward: &list_attempts!("a.endpoint_id = $1", "<", "DESC"),
    backward: &list_attempts!("a.endpoint_id = $1", ">", "ASC"),
};

/// Uses indexes webhook_events_message, and webhook_attempts_event in every partition.
static OF_MESSAGE: ListSql = ListSql {
    forward: &list_attempts!("e.message_key = $1", "<", "DESC"),
    backward: &list_attempts!("e.message_key = $1", ">", "ASC"),
};

/// Finds one attempt of the message $1. Uses index webhook_attempts_event, in every partition.
static FIND: Sql = Sql {
    text: concat!(
        "SELECT ",
        attempt_columns!(),
        joined_attempts!(),
        " WHERE e.message_key = $1 AND a.event_key = $2 AND a.lease_claim = $3"
    ),
    types: &[Type::INT8, Type::INT8, Type::UUID],
};

/// Reads when an attempt was recorded.
static RECORDED_AT: Sql = Sql {
    text: "SELECT a.recorded_at FROM app.webhook_attempts a WHERE a.event_key = $1 AND a.lease_claim = $2",
    types: &[Type::INT8, Type::UUID],
};

/// The position of an attempt in a list: when it was recorded in microseconds since the epoch, and among those of one settle its
/// event.
type Position = (i64, i64);

/// The year 10000, later than any attempt.
const END_OF_TIME: i64 = 253_402_300_800_000_000;

fn parse(row: &Row) -> Result<AttemptRecord, tokio_postgres::Error> {
    let attempt = parse_attempt(row)?;
    Ok(AttemptRecord {
        id: AttemptId { event: posthaste_domain::EventKey(row.try_get(10)?), token: attempt.token },
        event_id: EventId::from_stored(row.try_get(11)?),
        message: MessageId::from_uuid(row.try_get(12)?),
        event_type: EventTypeName::from_stored(row.try_get(13)?),
        endpoint: EndpointId(DestinationId(row.try_get(14)?)),
        url: DestinationUrl::from_stored(row.try_get(15)?),
        attempt,
    })
}

/// Lists attempts, most recently recorded first.
pub(super) async fn list(
    session: &Session,
    app: ApplicationId,
    filter: &AttemptFilter,
    request: &ListRequest<AttemptId>,
) -> Call<List<AttemptRecord>> {
    let (sql, of) = match &filter.of {
        AttemptsOf::Message(message) => (&OF_MESSAGE, find_message(session, app, message).await?.key),
        AttemptsOf::Endpoint(endpoint) => (&OF_ENDPOINT, find_endpoint(session, app, endpoint).await?.0),
    };
    let only = match &filter.endpoint {
        Some(endpoint) => Some(find_endpoint(session, app, endpoint).await?.0),
        None => None,
    };
    let Some(request) = request_by_position(session, request).await? else { return Ok(List::empty()) };
    let query = PageQuery::new(sql, &request, (END_OF_TIME, i64::MAX));
    let class = filter.status_code_class.map(i32::from);
    let channel = filter.channel.as_ref().map(Channel::as_str);
    let types: Option<Vec<&str>> =
        filter.event_types.as_ref().map(|types| types.iter().map(EventTypeName::as_str).collect());
    let (before, after) = (filter.before.map(Timestamp::as_micros), filter.after.map(Timestamp::as_micros));
    let rows = session
        .query(
            query.sql,
            &[
                &of,
                &query.bound.0,
                &query.bound.1,
                &query.rows_max,
                &only,
                &filter.is_success,
                &class,
                &channel,
                &types,
                &before,
                &after,
            ],
        )
        .await?;
    Ok(query.page(rows.iter().map(parse).collect::<Result<_, _>>()?))
}

/// Translates the attempt from which a page continues into its position. `None` if there is no such attempt.
async fn request_by_position(
    session: &Session,
    request: &ListRequest<AttemptId>,
) -> Call<Option<ListRequest<Position>>> {
    let position = match &request.from {
        ListFrom::Start => None,
        ListFrom::After(id) | ListFrom::Before(id) => {
            let rows = session.query(&RECORDED_AT, &[&id.event.0, &lease_claim(id.token, id.event)]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            Some((row.try_get::<_, PgTimestamp>(0)?.0.as_micros(), id.event.0))
        }
    };
    Ok(request.try_map(|_| position))
}

/// Finds one attempt of a message.
pub(super) async fn find(session: &Session, message: i64, id: AttemptId) -> Call<AttemptRecord> {
    let rows = session.query(&FIND, &[&message, &id.event.0, &lease_claim(id.token, id.event)]).await?;
    let not_found = || StoreError::AttemptNotFound { attempt: id.to_string() };
    Ok(parse(rows.first().ok_or_else(not_found)?)?)
}
