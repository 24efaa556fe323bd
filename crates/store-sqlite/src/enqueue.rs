//! Storing what producers hand in.
//!
//! A request is judged before anything of it is written: a refused one leaves nothing to undo.

use std::collections::BTreeSet;

use posthaste_domain::{DeliveryStatus, DestinationUrl, EventId, MessageId, NewEvent, Timestamp};
use posthaste_store::{EnqueueRequest, Enqueued, Idempotency, Receipt, StoreError};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::fault::Fault;
use crate::row;
use crate::totals::{self, Change};

pub(crate) fn enqueue(
    db: &Connection,
    now: Timestamp,
    random: &mut StdRng,
    request: &EnqueueRequest,
) -> Result<Enqueued, Fault> {
    if let Some(idempotency) = &request.idempotency
        && let Some(replay) = replay(db, now, idempotency)?
    {
        return Ok(replay);
    }
    let receipts = enqueue_events(db, now, random, &request.events)?;
    if let Some(idempotency) = &request.idempotency {
        remember(db, now, idempotency, &receipts)?;
    }
    Ok(Enqueued { replayed: false, receipts })
}

pub(crate) fn enqueue_events(
    db: &Connection,
    now: Timestamp,
    random: &mut StdRng,
    events: &[NewEvent],
) -> Result<Vec<Receipt>, Fault> {
    ids_are_free(db, events)?;
    let mut insertion = Insertion::prepare(db)?;
    let mut change = Change::default();
    let mut receipts = Vec::with_capacity(events.len());
    let first_key = totals::last_key(db)? + 1;
    for (key, event) in (first_key..).zip(events) {
        let message_id = MessageId::v7(now, random.random());
        receipts.push(insertion.insert(now, key, message_id, event)?);
        change.enqueued();
    }
    change.write(db)?;
    Ok(receipts)
}

fn replay(db: &Connection, now: Timestamp, idempotency: &Idempotency) -> Result<Option<Enqueued>, Fault> {
    // Index: webhook_idempotency_key.
    let remembered = db
        .prepare_cached(
            "SELECT fingerprint, event_ids, created_at
             FROM webhook_idempotency
             WHERE key = ?1 AND forget_at > ?2",
        )?
        .query_row((&idempotency.key, now.as_micros()), |row| {
            Ok((row.get::<_, [u8; 32]>(0)?, receipts(row.get_ref(1)?.as_str()?, row::moment(row, 2)?)))
        })
        .optional()?;
    match remembered {
        None => Ok(None),
        Some((fingerprint, receipts)) if fingerprint == idempotency.fingerprint => {
            Ok(Some(Enqueued { replayed: true, receipts }))
        }
        Some(_) => Err(StoreError::IdempotencyConflict { key: idempotency.key.clone() }.into()),
    }
}

/// All events of a request are created at one moment, and an id has no line break in it.
fn receipts(event_ids: &str, created_at: Timestamp) -> Vec<Receipt> {
    let receipt = |event_id: &str| Receipt {
        event_id: EventId::stored(event_id.to_owned()),
        status: DeliveryStatus::Pending,
        created_at,
    };
    event_ids.lines().map(receipt).collect()
}

fn remember(
    db: &Connection,
    now: Timestamp,
    idempotency: &Idempotency,
    receipts: &[Receipt],
) -> rusqlite::Result<()> {
    let event_ids: Vec<&str> = receipts.iter().map(|receipt| receipt.event_id.as_str()).collect();
    // A key whose time is over may still be there.
    db.prepare_cached(
        "INSERT INTO webhook_idempotency (key, fingerprint, event_ids, created_at, forget_at)
         VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT (key) DO UPDATE
         SET fingerprint = excluded.fingerprint,
             event_ids   = excluded.event_ids,
             created_at  = excluded.created_at,
             forget_at   = excluded.forget_at",
    )?
    .execute((
        &idempotency.key,
        idempotency.fingerprint,
        event_ids.join("\n"),
        now.as_micros(),
        now.after(idempotency.keep).as_micros(),
    ))?;
    Ok(())
}

fn ids_are_free(db: &Connection, events: &[NewEvent]) -> Result<(), Fault> {
    let mut seen = BTreeSet::new();
    for event_id in events.iter().filter_map(NewEvent::event_id) {
        // Index: webhook_events_event_id.
        let taken = db
            .prepare_cached("SELECT 1 FROM webhook_events WHERE event_id = ?1")?
            .exists([event_id.as_str()])?;
        if taken || !seen.insert(event_id) {
            return Err(StoreError::EventIdTaken { event_id: event_id.clone() }.into());
        }
    }
    Ok(())
}

/// The statements that store one event, prepared once for all of a request.
struct Insertion<'a> {
    find_destination: CachedStatement<'a>,
    add_destination: CachedStatement<'a>,
    message: CachedStatement<'a>,
    event: CachedStatement<'a>,
    queue: CachedStatement<'a>,
    ready: CachedStatement<'a>,
}

impl<'a> Insertion<'a> {
    fn prepare(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            // Index: webhook_destinations_url.
            find_destination: db
                .prepare_cached("SELECT id FROM webhook_destinations WHERE kind = 'url' AND url = ?1")?,
            add_destination: db
                .prepare_cached("INSERT INTO webhook_destinations (kind, url, created_at) VALUES ('url', ?1, ?2)")?,
            message: db.prepare_cached(
                "INSERT INTO webhook_messages
                     (key, id, event_type, content_type, payment_request_id, session_id, traceparent, created_at,
                      payload)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            )?,
            event: db.prepare_cached(
                "INSERT INTO webhook_events
                     (id, event_id, message_key, message_id, destination_id, event_type, max_attempts, created_at,
                      webhook_id, payment_request_id, session_id)
                 VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
            )?,
            queue: db.prepare_cached(
                "INSERT INTO webhook_queue (id, destination_id, next_attempt_at, updated_at, reserve)
                 VALUES (?1, ?2, ?3, ?3, x'00000000000000000000000000000000000000000000000000000000')",
            )?,
            ready: db.prepare_cached("INSERT INTO webhook_ready (destination_id, id) VALUES (?2, ?1)")?,
        })
    }

    /// A message has one event as yet, and shares its key.
    fn insert(
        &mut self,
        now: Timestamp,
        key: i64,
        message_id: MessageId,
        event: &NewEvent,
    ) -> rusqlite::Result<Receipt> {
        let destination_id = self.destination_of(now, event.destination_url())?;
        let event_id = event.event_id().cloned().unwrap_or_else(|| EventId::of(message_id));
        self.message.execute((
            key,
            message_id.as_uuid().into_bytes(),
            event.event_type(),
            event.content_type(),
            event.payment_request_id(),
            event.session_id(),
            event.traceparent(),
            now.as_micros(),
            event.payload().as_ref(),
        ))?;
        self.event.execute((
            key,
            event_id.as_str(),
            message_id.as_uuid().into_bytes(),
            destination_id,
            event.event_type(),
            event.max_attempts(),
            now.as_micros(),
            event.webhook_id(),
            event.payment_request_id(),
            event.session_id(),
        ))?;
        self.queue.execute((key, destination_id, now.as_micros()))?;
        self.ready.execute((key, destination_id))?;
        Ok(Receipt { event_id, status: DeliveryStatus::Pending, created_at: now })
    }

    fn destination_of(&mut self, now: Timestamp, url: &DestinationUrl) -> rusqlite::Result<i64> {
        match self.find_destination.query_row([url.as_str()], |row| row.get(0)).optional()? {
            Some(known) => Ok(known),
            None => self.add_destination.insert((url.as_str(), now.as_micros())),
        }
    }
}
