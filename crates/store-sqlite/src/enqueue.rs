//! Enqueue: stores the events of producers.
//!
//! A request is checked before any of it is written, so a refused request leaves nothing to undo.

mod new_leases;

use std::collections::BTreeSet;

use posthaste_domain::{
    DeliveryStatus, DestinationId, DestinationUrl, EventId, EventKey, MessageId, NewEvent, Timestamp,
};
use posthaste_store::{EnqueueRequest, EnqueueResponse, Idempotency, Receipt, StoreError};
use rand::RngExt as _;
use rand::rngs::StdRng;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::destination_queue;
use crate::error::CallError;
use crate::row;
use crate::totals::{self, TotalsChange};
use new_leases::NewLeases;

/// Stores the events of a request, or returns the first response if its idempotency key was used before.
pub(crate) fn enqueue(
    db: &Connection,
    now: Timestamp,
    random: &mut StdRng,
    request: &EnqueueRequest,
) -> Result<EnqueueResponse, CallError> {
    if let Some(idempotency) = &request.idempotency
        && let Some(first_response) = find_replay(db, now, idempotency)?
    {
        return Ok(first_response);
    }
    let mut leases = match &request.lease {
        Some(lease) => Some(NewLeases::prepare(db, now, random, lease)?),
        None => None,
    };
    let stored_by = request.stored_by.as_deref();
    let receipts = insert_events(db, now, random, &request.events, stored_by, leases.as_mut())?;
    let leases = leases.map_or_else(|| Ok(Vec::new()), NewLeases::finish)?;
    if let Some(idempotency) = &request.idempotency {
        store_key(db, now, idempotency, &receipts)?;
    }
    Ok(EnqueueResponse { replayed: false, receipts, leases })
}

/// Stores events, all or none, and returns a receipt for each. `stored_by` is the name of the producer's API key.
pub(crate) fn enqueue_events(
    db: &Connection,
    now: Timestamp,
    random: &mut StdRng,
    events: &[NewEvent],
    stored_by: Option<&str>,
) -> Result<Vec<Receipt>, CallError> {
    insert_events(db, now, random, events, stored_by, None)
}

fn insert_events(
    db: &Connection,
    now: Timestamp,
    random: &mut StdRng,
    events: &[NewEvent],
    stored_by: Option<&str>,
    mut leases: Option<&mut NewLeases<'_>>,
) -> Result<Vec<Receipt>, CallError> {
    check_ids_are_unused(db, events)?;
    let mut statements = InsertStatements::prepare(db)?;
    let mut totals = TotalsChange::default();
    let mut receipts = Vec::with_capacity(events.len());
    let first_key = totals::last_event_key(db)? + 1;
    for (key, event) in (first_key..).zip(events) {
        let message_id = MessageId::v7(now, random.random());
        receipts.push(statements.insert(now, key, message_id, event, stored_by, leases.as_deref_mut())?);
        totals.add_enqueued();
    }
    totals.write(db)?;
    Ok(receipts)
}

/// Finds the response to an earlier request with the same idempotency key. Fails if the body of that request was
/// different.
fn find_replay(
    db: &Connection,
    now: Timestamp,
    idempotency: &Idempotency,
) -> Result<Option<EnqueueResponse>, CallError> {
    // Index: webhook_idempotency_key.
    let stored = db
        .prepare_cached(
            "SELECT fingerprint, event_ids, created_at
             FROM webhook_idempotency
             WHERE key = ?1 AND expires_at > ?2",
        )?
        .query_row((&idempotency.key, now.as_micros()), |row| {
            Ok((
                row.get::<_, [u8; 32]>(0)?,
                parse_receipts(row.get_ref(1)?.as_str()?, row::timestamp(row, 2)?),
            ))
        })
        .optional()?;
    match stored {
        None => Ok(None),
        Some((fingerprint, receipts)) if fingerprint == idempotency.fingerprint => {
            Ok(Some(EnqueueResponse { replayed: true, receipts, leases: Vec::new() }))
        }
        Some(_) => Err(StoreError::IdempotencyConflict { key: idempotency.key.clone() }.into()),
    }
}

/// Rebuilds the receipts of a stored response. All events of a request have one creation time, and an event id contains
/// no line break.
fn parse_receipts(event_ids: &str, created_at: Timestamp) -> Vec<Receipt> {
    let receipt = |event_id: &str| Receipt {
        event_id: EventId::from_stored(event_id.to_owned()),
        status: DeliveryStatus::Pending,
        created_at,
    };
    event_ids.lines().map(receipt).collect()
}

/// Stores an idempotency key with its response.
fn store_key(
    db: &Connection,
    now: Timestamp,
    idempotency: &Idempotency,
    receipts: &[Receipt],
) -> rusqlite::Result<()> {
    let event_ids: Vec<&str> = receipts.iter().map(|receipt| receipt.event_id.as_str()).collect();
    // Replaces an expired row of the same key that maintenance has not removed yet. The new row is the last to expire,
    // so it must have the highest id.
    db.prepare_cached(
        "INSERT OR REPLACE INTO webhook_idempotency (key, fingerprint, event_ids, created_at, expires_at)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((
        &idempotency.key,
        idempotency.fingerprint,
        event_ids.join("\n"),
        now.as_micros(),
        now.after(idempotency.keep_for).as_micros(),
    ))?;
    Ok(())
}

/// Refuses events whose ids are stored already, belonged to discarded events, or occur twice in the request.
fn check_ids_are_unused(db: &Connection, events: &[NewEvent]) -> Result<(), CallError> {
    let mut seen = BTreeSet::new();
    for event_id in events.iter().filter_map(NewEvent::event_id) {
        // Indexes: webhook_events_event_id, webhook_discarded_events_event_id.
        let taken = db
            .prepare_cached(
                "SELECT 1 FROM webhook_events WHERE event_id = ?1
                 UNION ALL SELECT 1 FROM webhook_discarded_events WHERE event_id = ?1",
            )?
            .exists([event_id.as_str()])?;
        if taken || !seen.insert(event_id) {
            return Err(StoreError::EventIdTaken { event_id: event_id.clone() }.into());
        }
    }
    Ok(())
}

/// Returns the destination of a URL, which is created if it is new.
pub(crate) fn find_or_add_destination(
    db: &Connection,
    now: Timestamp,
    url: &DestinationUrl,
) -> rusqlite::Result<DestinationId> {
    InsertStatements::prepare(db)?.find_or_add_destination(now, url).map(DestinationId)
}

/// The statements that store an event, prepared once per request.
struct InsertStatements<'a> {
    db: &'a Connection,
    find_destination: CachedStatement<'a>,
    add_destination: CachedStatement<'a>,
    message: CachedStatement<'a>,
    event: CachedStatement<'a>,
    queue: CachedStatement<'a>,
    first_attempt: CachedStatement<'a>,
}

impl<'a> InsertStatements<'a> {
    fn prepare(db: &'a Connection) -> rusqlite::Result<Self> {
        Ok(Self {
            db,
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
                      webhook_id, payment_request_id, session_id, stored_by, deliver_at)
                 VALUES (?1, ?2, ?1, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
            )?,
            queue: db.prepare_cached(
                "INSERT INTO webhook_queue (id, destination_id, next_attempt_at, updated_at, lease_padding)
                 VALUES (?1, ?2, ?4, ?3, x'00000000000000000000000000000000000000000000000000000000')",
            )?,
            first_attempt: db.prepare_cached("INSERT INTO webhook_first_attempts (destination_id, id) VALUES (?2, ?1)")?,
        })
    }

    /// Inserts an event and its message under the same key: the message has no other event.
    fn insert(
        &mut self,
        now: Timestamp,
        key: i64,
        message_id: MessageId,
        event: &NewEvent,
        stored_by: Option<&str>,
        leases: Option<&mut NewLeases<'_>>,
    ) -> rusqlite::Result<Receipt> {
        let destination_id = self.find_or_add_destination(now, event.destination_url())?;
        let event_id = event.event_id().cloned().unwrap_or_else(|| EventId::from_message(message_id));
        let deliver_at = Some(now.after(event.deliver_in())).filter(|at| *at > now);
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
            stored_by,
            deliver_at.map(Timestamp::as_micros),
        ))?;
        let is_leased = match leases {
            Some(leases) if deliver_at.is_none() => {
                leases.insert(key, destination_id, message_id, &event_id, event)?
            }
            _ => false,
        };
        if !is_leased {
            let due = deliver_at.unwrap_or(now);
            self.queue.execute((key, destination_id, now.as_micros(), due.as_micros()))?;
            match deliver_at {
                None => {
                    self.first_attempt.execute((key, destination_id))?;
                }
                Some(due) => destination_queue::insert_deferred(
                    self.db,
                    EventKey(key),
                    DestinationId(destination_id),
                    due,
                )?,
            }
        }
        Ok(Receipt { event_id, status: DeliveryStatus::Pending, created_at: now })
    }

    /// Returns the id of the destination of a URL, which is created if it is new.
    fn find_or_add_destination(&mut self, now: Timestamp, url: &DestinationUrl) -> rusqlite::Result<i64> {
        match self.find_destination.query_row([url.as_str()], |row| row.get(0)).optional()? {
            Some(id) => Ok(id),
            None => self.add_destination.insert((url.as_str(), now.as_micros())),
        }
    }
}
