//! Messages: lists and content.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::{
    ApplicationId, AttemptId, Channel, DestinationId, EndpointId, EndpointRef, EventId, EventTypeName,
    MessageId, MessageRef, Timestamp, Uid,
};
use posthaste_store::{
    AnswerSlot, AppScope, AttemptFilter, AttemptRecord, EndpointMessage, List, ListFrom, ListRequest,
    MessageContent, MessageDestination, MessageFilter, MessageView, Messages, Publication, PublishRequest,
    StoreError,
};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::answer::change_answered;
use super::endpoint::endpoint_columns;
use super::list::{ListSql, PageQuery, list_by_number};
use super::{
    Call, CallError, attempt, cancel, change, endpoint, find_app, find_endpoint, find_message, publish, read,
    resend,
};
use crate::PostgresStore;
use crate::convert::PgTimestamp;
use crate::event::{event_columns, parse_event_at};
use crate::session::{Session, Sql};

/// The columns of a message `m` that [`parse`] reads. The payload is read only if $4.
macro_rules! message_columns {
    ($with_content:literal) => {
        concat!(
            "m.id, m.app_id, m.uid, m.event_type, m.channels, m.tags, m.created_at, m.deliver_at, m.payload IS NULL, \
             CASE WHEN ",
            $with_content,
            " THEN m.payload END"
        )
    };
}

/// The number of columns of `message_columns!`.
const MESSAGE_COLUMNS: usize = 10;
/// The number of columns of `endpoint_columns!`.
const ENDPOINT_COLUMNS: usize = 14;

/// The condition of a list on a message `m`: $5 are event types, $6 a channel, $7 a tag, $8 and $9 times in microseconds since the
/// epoch.
macro_rules! message_filter {
    () => {
        "($5::text[] IS NULL OR m.event_type = ANY ($5)) AND ($6::text IS NULL OR $6 = ANY (m.channels))
     AND ($7::text IS NULL OR $7 = ANY (m.tags))
     AND ($8::bigint IS NULL OR m.created_at < timestamptz 'epoch' + $8 * interval '1 microsecond')
     AND ($9::bigint IS NULL OR m.created_at > timestamptz 'epoch' + $9 * interval '1 microsecond')"
    };
}

/// Reads a message. Uses index webhook_messages_key.
static SELECT: Sql = Sql {
    text: concat!("SELECT ", message_columns!("$2"), " FROM app.webhook_messages m WHERE m.key = $1"),
    types: &[Type::INT8, Type::BOOL],
};

// Lists the messages of an application. Uses index webhook_messages_app, backwards.
list_by_number!(
    LIST,
    concat!(
        "SELECT ",
        message_columns!("$4"),
        " FROM app.webhook_messages m WHERE m.app_id = $1 AND ",
        message_filter!()
    ),
    "m.key",
    descending,
    &[
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::BOOL,
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::INT8
    ]
);

// Lists the messages of an application with their first events for the endpoint $10. Uses indexes webhook_messages_app, backwards,
// and webhook_events_event_id. Skips messages that the endpoint does not get.
list_by_number!(
    LIST_OF_ENDPOINT,
    concat!(
        "SELECT ",
        message_columns!("$4"),
        ", ",
        event_columns!(),
        " FROM app.webhook_messages m
          JOIN app.webhook_outbox_events v ON v.event_id = 'msg_' || replace(m.id::text, '-', '') || '-' || $10::bigint
          WHERE m.app_id = $1 AND ",
        message_filter!()
    ),
    "m.key",
    descending,
    &[
        Type::INT8,
        Type::INT8,
        Type::INT8,
        Type::BOOL,
        Type::TEXT_ARRAY,
        Type::TEXT,
        Type::TEXT,
        Type::INT8,
        Type::INT8,
        Type::INT8
    ]
);

// Lists the endpoints that get the message $1, each with its first event. Uses indexes webhook_events_message and
// webhook_endpoints_destination. $4 is the public id of the message.
list_by_number!(
    DESTINATIONS,
    concat!(
        "SELECT ",
        endpoint_columns!(),
        ", ",
        event_columns!(),
        " FROM app.webhook_events x
          JOIN app.webhook_endpoints e ON e.destination_id = x.destination_id AND e.deleted_at IS NULL
          JOIN app.webhook_destinations d ON d.id = x.destination_id
          JOIN app.webhook_outbox_events v ON v.id = x.id
          WHERE x.message_key = $1 AND x.event_id = $4 || '-' || x.destination_id"
    ),
    "x.destination_id",
    descending,
    &[Type::INT8, Type::INT8, Type::INT8, Type::TEXT]
);

/// Removes the payload of a message.
static EXPUNGE: Sql =
    Sql { text: "UPDATE app.webhook_messages m SET payload = NULL WHERE m.key = $1", types: &[Type::INT8] };

/// Parses a row of `message_columns!`.
fn parse(row: &Row, with_content: bool) -> Result<MessageView, tokio_postgres::Error> {
    let content = match (row.try_get(8)?, with_content) {
        (true, _) => MessageContent::Expunged,
        (false, false) => MessageContent::Omitted,
        (false, true) => MessageContent::Payload(Bytes::copy_from_slice(
            row.try_get::<_, Option<&[u8]>>(9)?.unwrap_or_default(),
        )),
    };
    let channels = row.try_get::<_, Option<Vec<String>>>(4)?.unwrap_or_default();
    Ok(MessageView {
        id: MessageId::from_uuid(row.try_get(0)?),
        app: ApplicationId(row.try_get(1)?),
        uid: row.try_get::<_, Option<String>>(2)?.map(Uid::from_stored),
        event_type: EventTypeName::from_stored(row.try_get(3)?),
        channels: channels.into_iter().map(Channel::from_stored).collect(),
        tags: row.try_get::<_, Option<Vec<String>>>(5)?.unwrap_or_default().into_iter().collect(),
        content,
        created_at: row.try_get::<_, PgTimestamp>(6)?.0,
        deliver_at: row.try_get::<_, Option<PgTimestamp>>(7)?.map(|PgTimestamp(at)| at),
    })
}

async fn select(session: &Session, key: i64, with_content: bool) -> Call<MessageView> {
    let rows = session.query(&SELECT, &[&key, &with_content]).await?;
    let row = rows.first().ok_or_else(|| StoreError::MessageNotFound { message: key.to_string() })?;
    Ok(parse(row, with_content)?)
}

/// Translates the message from which a page continues into its key. `None` if the application has no such message.
async fn request_by_key(
    session: &Session,
    app: ApplicationId,
    request: &ListRequest<MessageId>,
) -> Call<Option<ListRequest<i64>>> {
    let id = match &request.from {
        ListFrom::Start => None,
        ListFrom::After(id) | ListFrom::Before(id) => Some(*id),
    };
    let key = match id {
        None => None,
        Some(id) => match find_message(session, app, &MessageRef::Id(id)).await {
            Ok(found) => Some(found.key),
            Err(CallError::Refused(_)) => return Ok(None),
            Err(failed) => return Err(failed),
        },
    };
    Ok(request.try_map(|_| key))
}

/// The parameters of `message_filter!`.
struct FilterParams<'a> {
    event_types: Option<Vec<&'a str>>,
    channel: Option<&'a str>,
    tag: Option<&'a str>,
    before: Option<i64>,
    after: Option<i64>,
}

impl<'a> FilterParams<'a> {
    fn new(filter: &'a MessageFilter) -> Self {
        let types = filter.event_types.as_ref();
        Self {
            event_types: types.map(|types| types.iter().map(EventTypeName::as_str).collect()),
            channel: filter.channel.as_ref().map(Channel::as_str),
            tag: filter.tag.as_deref(),
            before: filter.before.map(Timestamp::as_micros),
            after: filter.after.map(Timestamp::as_micros),
        }
    }
}

/// Lists messages: all of an application, or those of an endpoint, whose rows have further columns.
async fn list_rows(
    session: &Session,
    sql: &ListSql,
    app: ApplicationId,
    filter: &MessageFilter,
    request: &ListRequest<MessageId>,
    with_content: bool,
    endpoint: Option<DestinationId>,
) -> Call<Option<(PageQuery<i64>, Vec<Row>)>> {
    let Some(request) = request_by_key(session, app, request).await? else { return Ok(None) };
    let query = PageQuery::new(sql, &request, i64::MAX);
    let FilterParams { event_types, channel, tag, before, after } = FilterParams::new(filter);
    let endpoint = endpoint.map(|id| id.0);
    let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![
        &app.0,
        &query.bound,
        &query.rows_max,
        &with_content,
        &event_types,
        &channel,
        &tag,
        &before,
        &after,
    ];
    if endpoint.is_some() {
        params.push(&endpoint);
    }
    let rows = session.query(query.sql, &params).await?;
    Ok(Some((query, rows)))
}

#[async_trait]
impl Messages for PostgresStore {
    async fn publish(&self, request: &PublishRequest) -> Result<Publication, StoreError> {
        publish::publish(&self.shared, request).await
    }

    async fn get(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        with_content: bool,
    ) -> Result<MessageView, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let found = find_message(session, app, message).await?;
            select(session, found.key, with_content).await
        })
        .await
    }

    async fn list(
        &self,
        scope: AppScope<'_>,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<MessageView>, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let listed = list_rows(session, &LIST, app, filter, request, with_content, None).await?;
            let Some((query, rows)) = listed else { return Ok(List::empty()) };
            Ok(query.page(rows.iter().map(|row| parse(row, with_content)).collect::<Result<_, _>>()?))
        })
        .await
    }

    async fn expunge(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        actor: &str,
    ) -> Result<(), StoreError> {
        let expunged = change(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let found = find_message(session, app, message).await?;
            session.query(&EXPUNGE, &[&found.key]).await?;
            cancel::cancel_of_message(session, found.key, actor).await?;
            Ok(())
        });
        expunged.await?;
        self.shared.committed_notices.notify();
        self.shared.blocked.release_all();
        Ok(())
    }

    async fn destinations(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        request: &ListRequest<EndpointId>,
    ) -> Result<List<MessageDestination>, StoreError> {
        let query = PageQuery::new(&DESTINATIONS, request, EndpointId(DestinationId(i64::MAX)));
        let listed = read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let found = find_message(session, app, message).await?;
            let id = found.id.to_string();
            let rows =
                session.query(query.sql, &[&found.key, &query.bound.0.0, &query.rows_max, &id]).await?;
            let item = |row: &Row| -> Result<_, tokio_postgres::Error> {
                let event = parse_event_at(row, ENDPOINT_COLUMNS)?;
                Ok(MessageDestination { endpoint: endpoint::parse(row)?, event })
            };
            Ok(rows.iter().map(item).collect::<Result<Vec<_>, _>>()?)
        });
        Ok(query.page(listed.await?))
    }

    async fn of_endpoint(
        &self,
        scope: AppScope<'_>,
        endpoint: &EndpointRef,
        filter: &MessageFilter,
        request: &ListRequest<MessageId>,
        with_content: bool,
    ) -> Result<List<EndpointMessage>, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let id = find_endpoint(session, app, endpoint).await?;
            let listed =
                list_rows(session, &LIST_OF_ENDPOINT, app, filter, request, with_content, Some(id)).await?;
            let Some((query, rows)) = listed else { return Ok(List::empty()) };
            let item = |row: &Row| -> Result<_, tokio_postgres::Error> {
                let event = parse_event_at(row, MESSAGE_COLUMNS)?;
                Ok(EndpointMessage { message: parse(row, with_content)?, event })
            };
            Ok(query.page(rows.iter().map(item).collect::<Result<_, _>>()?))
        })
        .await
    }

    async fn attempts(
        &self,
        scope: AppScope<'_>,
        filter: &AttemptFilter,
        request: &ListRequest<AttemptId>,
    ) -> Result<List<AttemptRecord>, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            attempt::list(session, app, filter, request).await
        })
        .await
    }

    async fn attempt(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        attempt: AttemptId,
    ) -> Result<AttemptRecord, StoreError> {
        read(&self.shared.sessions.operate, async |session| {
            let app = find_app(session, scope).await?;
            let found = find_message(session, app, message).await?;
            attempt::find(session, found.key, attempt).await
        })
        .await
    }

    async fn resend(
        &self,
        scope: AppScope<'_>,
        message: &MessageRef,
        endpoint: &EndpointRef,
        actor: &str,
        answer: Option<&AnswerSlot<EventId>>,
    ) -> Result<EventId, StoreError> {
        let resent = change_answered(&self.shared.sessions.operate, answer, async |session| {
            let app = find_app(session, scope).await?;
            resend::resend(session, app, message, endpoint, actor).await
        });
        let resent = resent.await;
        self.shared.blocked.release_all();
        self.shared.wake_after_enqueue();
        resent
    }
}
