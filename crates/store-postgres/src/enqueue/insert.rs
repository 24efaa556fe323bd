//! The statement that stores events, and what goes into it.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Mutex, PoisonError};

use posthaste_domain::{DeliveryStatus, EventId, MessageId, NewEvent, Timestamp};
use posthaste_store::Receipt;
use rand::RngExt as _;
use rand::rngs::StdRng;
use tokio_postgres::Row;
use tokio_postgres::types::{ToSql, Type};
use uuid::Uuid;

use crate::moment::Moment;
use crate::session::Sql;

/// Message, event and place in line of every event, their count, and the bell, all together. Destinations that this
/// process knows come with their ids, which are good if the server knows them too; others are looked up or made.
/// Destinations and event ids are made in one order, so that nobody waits in a circle.
pub(crate) static INSERT: Sql = Sql {
    text: "
WITH places AS MATERIALIZED (
    SELECT ARRAY(
        SELECT coalesce(
            (SELECT d.id FROM app.webhook_destinations d WHERE d.id = p.id AND d.url = p.url),
            app.webhook_destination(p.url)
        )
        FROM unnest($1::text[], $2::bigint[]) AS p (url, id)
    ) AS ids
),
keyed AS MATERIALIZED (
    SELECT nextval('app.webhook_turn') AS id, p.ids[i.place] AS destination_id, i.*
    FROM places p, unnest(
        $3::integer[], $4::uuid[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[], $10::integer[]
    ) AS i (
        place, message_id, event_id, event_type, webhook_id, payment_request_id, session_id, max_attempts
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
        payment_request_id, session_id
    )
    SELECT id, message_id, destination_id, app.webhook_now(), max_attempts, event_id, event_type, webhook_id,
           payment_request_id, session_id
    FROM keyed
    ORDER BY event_id COLLATE \"C\"
),
queue AS (
    INSERT INTO app.webhook_queue (id, destination_id, turn, next_attempt_at, updated_at)
    SELECT id, destination_id, id, app.webhook_now(), app.webhook_now() FROM keyed
),
counted AS (
    INSERT INTO app.webhook_counts (pending) SELECT count(*) FROM keyed
)
SELECT app.webhook_now(), p.ids, pg_notify('posthaste_due', '') FROM places p",
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
    ],
};

/// Destinations that this process has stored to.
#[derive(Default)]
pub(crate) struct Places {
    ids: Mutex<HashMap<String, i64>>,
}

impl Places {
    const KNOWN_MAX: usize = 100_000;

    pub(super) fn known(&self, urls: &[&str]) -> Vec<Option<i64>> {
        let ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        urls.iter().map(|url| ids.get(*url).copied()).collect()
    }

    fn learn(&self, urls: &[&str], found: &[i64]) {
        let mut ids = self.ids.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.len() + urls.len() > Self::KNOWN_MAX {
            ids.clear();
        }
        ids.extend(urls.iter().map(|url| (*url).to_owned()).zip(found.iter().copied()));
    }

    pub(crate) fn forget(&self) {
        self.ids.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Makes message ids: this host's clock and chance. The clock only sorts them; when an event was accepted is the
/// server's to say.
pub(crate) struct MessageIds {
    now: Timestamp,
    random: StdRng,
}

impl MessageIds {
    #[expect(
        clippy::disallowed_methods,
        reason = "ids of messages sort by this host's clock and are drawn by its chance"
    )]
    pub(crate) fn of_this_host() -> Self {
        let since_epoch =
            std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Self { now: Timestamp::default().after(since_epoch), random: rand::make_rng() }
    }

    fn next(&mut self) -> MessageId {
        MessageId::v7(self.now, self.random.random())
    }
}

/// Columns of the events to be stored. Payloads are borrowed until they are on the wire.
pub(crate) struct Insert<'a> {
    urls: Vec<&'a str>,
    known: Vec<Option<i64>>,
    places: Vec<i32>,
    message_ids: Vec<Uuid>,
    event_ids: Vec<EventId>,
    shown_ids: Vec<String>,
    event_types: Vec<&'a str>,
    webhook_ids: Vec<Option<&'a str>>,
    payment_request_ids: Vec<Option<&'a str>>,
    session_ids: Vec<Option<&'a str>>,
    max_attempts: Vec<i32>,
    content_types: Vec<&'a str>,
    traceparents: Vec<Option<&'a str>>,
    payloads: Vec<&'a [u8]>,
}

impl<'a> Insert<'a> {
    pub(crate) fn of(events: &[&'a NewEvent], places: &Places, message_ids: &mut MessageIds) -> Self {
        let sorted: BTreeSet<&'a str> = events.iter().map(|event| event.destination_url().as_str()).collect();
        let urls: Vec<&'a str> = sorted.into_iter().collect();
        let place_of = |url: &str| {
            let index = urls.binary_search(&url).expect("every URL is among them");
            i32::try_from(index + 1).expect("a batch is small")
        };
        let column = |field: fn(&'a NewEvent) -> &'a str| events.iter().map(|event| field(event)).collect();
        let optional =
            |field: fn(&'a NewEvent) -> Option<&'a str>| events.iter().map(|event| field(event)).collect();
        let places_of_events =
            events.iter().map(|event| place_of(event.destination_url().as_str())).collect();
        let messages: Vec<MessageId> = events.iter().map(|_| message_ids.next()).collect();
        let event_ids: Vec<EventId> = events
            .iter()
            .zip(&messages)
            .map(|(event, message)| event.event_id().cloned().unwrap_or_else(|| EventId::of(*message)))
            .collect();
        Self {
            known: places.known(&urls),
            urls,
            places: places_of_events,
            message_ids: messages.into_iter().map(MessageId::as_uuid).collect(),
            shown_ids: event_ids.iter().map(|event_id| event_id.as_str().to_owned()).collect(),
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
        }
    }

    pub(crate) fn params(&self) -> [&(dyn ToSql + Sync); 13] {
        [
            &self.urls,
            &self.known,
            &self.places,
            &self.message_ids,
            &self.shown_ids,
            &self.event_types,
            &self.webhook_ids,
            &self.payment_request_ids,
            &self.session_ids,
            &self.max_attempts,
            &self.content_types,
            &self.traceparents,
            &self.payloads,
        ]
    }

    /// When the events were stored; destinations are remembered.
    pub(crate) fn stored(&self, rows: &[Row], places: &Places) -> Result<Timestamp, tokio_postgres::Error> {
        let row = rows.first().expect("the statement answers with one row");
        places.learn(&self.urls, &row.try_get::<_, Vec<i64>>(1)?);
        Ok(row.try_get::<_, Moment>(0)?.0)
    }

    pub(crate) fn event_ids(&self) -> impl Iterator<Item = EventId> {
        self.event_ids.iter().cloned()
    }
}

pub(crate) fn receipts(ids: impl Iterator<Item = EventId>, created_at: Timestamp) -> Vec<Receipt> {
    ids.map(|event_id| Receipt { event_id, status: DeliveryStatus::Pending, created_at }).collect()
}
