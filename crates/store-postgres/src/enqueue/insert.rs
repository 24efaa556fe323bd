//! The statement that inserts events, and its parameters.

use std::collections::BTreeSet;

use posthaste_domain::{DeliveryStatus, EventId, MessageId, NewEvent, Timestamp};
use posthaste_store::{EnqueueRequest, Receipt};
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use super::destination_ids::DestinationIds;
use crate::convert::PgTimestamp;
use crate::session::{Session, Sql, durable_commit};

/// Inserts messages, events, their queue rows and the change of the pending count, and notifies workers. Destinations
/// whose ids this process has cached come with those ids, which hold if the server has them too and does not remove
/// them; other destinations are looked up or inserted. Destinations and event ids are inserted in one order, so that
/// two statements cannot deadlock. The commit becomes durable in a caller's transaction too: a worker may send an event
/// as soon as it is visible, and a crash must not undo a change that the receiver has already seen.
pub(crate) static INSERT: Sql = Sql {
    text: concat!(
        "
WITH destinations AS MATERIALIZED (
    SELECT ARRAY(
        SELECT coalesce(
            (SELECT d.id FROM app.webhook_destinations d WHERE d.id = p.id AND d.url = p.url AND d.removal_xid IS NULL),
            app.webhook_destination_id(p.url)
        )
        FROM unnest($1::text[], $2::bigint[]) AS p (url, id)
    ) AS ids
),
new_events AS MATERIALIZED (
    SELECT app.webhook_next_event_key() AS id, d.ids[i.destination_index] AS destination_id, i.*
    FROM destinations d, unnest(
        $3::integer[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::integer[],
        $14::text[], $15::integer[]
    ) AS i (
        destination_index, message_id, event_id, event_type, webhook_id, payment_request_id, session_id, max_attempts,
        stored_by, payload_bytes
    )
),
messages AS (
    INSERT INTO app.webhook_messages (
        id, created_at, event_type, content_type, payment_request_id, session_id, traceparent, payload
    )
    SELECT m.id, app.webhook_now(), m.event_type, m.content_type, m.payment_request_id, m.session_id,
           m.traceparent, m.payload
    FROM unnest(
        $4::uuid[], $6::text[], $11::text[], $8::text[], $9::text[], $12::text[], $13::bytea[]
    ) AS m (id, event_type, content_type, payment_request_id, session_id, traceparent, payload)
),
events AS (
    INSERT INTO app.webhook_events (
        id, message_id, destination_id, created_at, max_attempts, event_id, event_type, webhook_id,
        payment_request_id, session_id, stored_by
    )
    SELECT id, message_id, destination_id, app.webhook_now(), max_attempts, event_id, event_type, webhook_id,
           payment_request_id, session_id, stored_by
    FROM new_events
    ORDER BY event_id COLLATE \"C\"
),
queue AS (
    INSERT INTO app.webhook_queue (id, destination_id, queue_position, next_attempt_at, payload_bytes, updated_at)
    SELECT id, destination_id, id, app.webhook_now(), payload_bytes, app.webhook_now() FROM new_events
),
counted AS (
    INSERT INTO app.webhook_counts (pending) SELECT count(*) FROM new_events
)
SELECT app.webhook_now(), d.ids, ",
        durable_commit!(),
        " FROM destinations d"
    ),
    types: &[
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT4_ARRAY,
        Type::UUID_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT4_ARRAY,
    ],
};

/// Generates message ids from this host's clock and random numbers. The clock only sorts the ids; the time at which an
/// event was accepted is the server's.
pub(crate) struct MessageIds {
    now: Timestamp,
    random: StdRng,
}

impl MessageIds {
    #[expect(
        clippy::disallowed_methods,
        reason = "message ids sort by this host's clock and take its random numbers"
    )]
    pub(crate) fn from_system() -> Self {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { now: Timestamp::default().after(since_epoch), random: rand::make_rng() }
    }

    fn next(&mut self) -> MessageId {
        MessageId::v7(self.now, self.random.random())
    }
}

/// The parameters of [`INSERT`]: one column per field. Payloads are borrowed, not copied.
pub(crate) struct Insert<'a> {
    /// The distinct destination URLs, sorted.
    urls: Vec<&'a str>,
    /// The cached ids of these destinations, in the order of `urls`.
    cached_ids: Vec<Option<i64>>,
    /// Per event, the position of its destination in `urls`, from 1.
    destination_indexes: Vec<i32>,
    message_ids: Vec<Uuid>,
    event_ids: Vec<EventId>,
    event_id_texts: Vec<String>,
    event_types: Vec<&'a str>,
    webhook_ids: Vec<Option<&'a str>>,
    payment_request_ids: Vec<Option<&'a str>>,
    session_ids: Vec<Option<&'a str>>,
    max_attempts: Vec<i32>,
    content_types: Vec<&'a str>,
    traceparents: Vec<Option<&'a str>>,
    payloads: Vec<&'a [u8]>,
    stored_by: Vec<Option<&'a str>>,
    payload_bytes: Vec<i32>,
}

impl<'a> Insert<'a> {
    /// Inserts the events of requests, with the names of the API keys that the requests were made with.
    pub(crate) fn of_requests(
        requests: impl Iterator<Item = &'a EnqueueRequest> + Clone,
        cache: &DestinationIds,
        message_ids: &mut MessageIds,
    ) -> Self {
        let events: Vec<&'a NewEvent> = requests.clone().flat_map(|request| &request.events).collect();
        let names = requests.flat_map(|request| {
            let name = request.stored_by.as_deref();
            request.events.iter().map(move |_| name)
        });
        Self { stored_by: names.collect(), ..Self::new(&events, cache, message_ids) }
    }

    /// Inserts events of a producer without an API key.
    pub(crate) fn new(events: &[&'a NewEvent], cache: &DestinationIds, message_ids: &mut MessageIds) -> Self {
        let sorted: BTreeSet<&'a str> = events.iter().map(|event| event.destination_url().as_str()).collect();
        let urls: Vec<&'a str> = sorted.into_iter().collect();
        let index_of = |url: &str| {
            let index = urls.binary_search(&url).expect("the list has the URL of every event");
            i32::try_from(index + 1).expect("a batch has far fewer than two billion events")
        };
        let column = |field: fn(&'a NewEvent) -> &'a str| events.iter().map(|event| field(event)).collect();
        let optional =
            |field: fn(&'a NewEvent) -> Option<&'a str>| events.iter().map(|event| field(event)).collect();
        let destination_indexes =
            events.iter().map(|event| index_of(event.destination_url().as_str())).collect();
        let messages: Vec<MessageId> = events.iter().map(|_| message_ids.next()).collect();
        let event_ids: Vec<EventId> = events
            .iter()
            .zip(&messages)
            .map(|(event, message)| {
                event.event_id().cloned().unwrap_or_else(|| EventId::from_message(*message))
            })
            .collect();
        Self {
            cached_ids: cache.get(&urls),
            urls,
            destination_indexes,
            message_ids: messages.into_iter().map(MessageId::as_uuid).collect(),
            event_id_texts: event_ids.iter().map(|event_id| event_id.as_str().to_owned()).collect(),
            event_ids,
            event_types: column(NewEvent::event_type),
            webhook_ids: optional(NewEvent::webhook_id),
            payment_request_ids: optional(NewEvent::payment_request_id),
            session_ids: optional(NewEvent::session_id),
            max_attempts: events
                .iter()
                .map(|event| i32::try_from(event.max_attempts()).expect("accepted events have few attempts"))
                .collect(),
            content_types: column(NewEvent::content_type),
            traceparents: optional(NewEvent::traceparent),
            payloads: events.iter().map(|event| &event.payload()[..]).collect(),
            stored_by: vec![None; events.len()],
            payload_bytes: events
                .iter()
                .map(|event| i32::try_from(event.payload().len()).unwrap_or(i32::MAX))
                .collect(),
        }
    }

    /// Returns the parameters, in the statement's order.
    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 15] {
        [
            &self.urls,
            &self.cached_ids,
            &self.destination_indexes,
            &self.message_ids,
            &self.event_id_texts,
            &self.event_types,
            &self.webhook_ids,
            &self.payment_request_ids,
            &self.session_ids,
            &self.max_attempts,
            &self.content_types,
            &self.traceparents,
            &self.payloads,
            &self.stored_by,
            &self.payload_bytes,
        ]
    }

    /// Returns the time at which the events were stored, and caches the ids of their destinations.
    pub(crate) fn read_result(
        &self,
        rows: &[Row],
        cache: &DestinationIds,
    ) -> Result<Timestamp, tokio_postgres::Error> {
        let row = rows.first().expect("the statement returns one row");
        cache.insert(&self.urls, &row.try_get::<_, Vec<i64>>(1)?);
        Ok(row.try_get::<_, PgTimestamp>(0)?.0)
    }

    /// Returns the ids of the events, in order.
    pub(crate) fn event_ids(&self) -> impl Iterator<Item = EventId> {
        self.event_ids.iter().cloned()
    }
}

/// Inserts an event in a transaction that the caller has begun, and returns the id of its destination.
pub(crate) async fn insert_in_transaction(
    session: &Session,
    event: &NewEvent,
) -> Result<i64, tokio_postgres::Error> {
    let uncached = DestinationIds::default();
    let insert = Insert::new(&[event], &uncached, &mut MessageIds::from_system());
    let rows = session.query(&INSERT, &insert.params()).await?;
    let ids: Vec<i64> = rows.first().expect("the statement returns one row").try_get(1)?;
    Ok(ids[0])
}

/// Returns the receipts of events that were just stored, all pending.
pub(crate) fn pending_receipts(ids: impl Iterator<Item = EventId>, created_at: Timestamp) -> Vec<Receipt> {
    ids.map(|event_id| Receipt { event_id, status: DeliveryStatus::Pending, created_at }).collect()
}
