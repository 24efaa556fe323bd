//! Expiry: dead-letters events that have been pending for too long, a small step per call.
//!
//! The queue is read in the order of its keys, which is the order of creation. No index is needed: a walk ends at the
//! first step whose last event is not old enough, and so reads little more than the events that are.

use posthaste_domain::{EventId, EventKey, Hold, TerminalState, Timestamp};
use posthaste_store::{ExpireRequest, ExpireResponse};
use rusqlite::{Connection, Row};

use crate::claims::{ClaimNumber, EndedLeases};
use crate::destination_queue::{self, QueueEntry};
use crate::error::CallError;
use crate::notices::{LogBatch, LogEntry};
use crate::operate;
use crate::row;
use crate::totals::TotalsChange;

/// Reads pending events after a key. All tables are read by their primary keys.
pub(crate) const PENDING_EVENTS: &str = "
    SELECT q.id, q.destination_id, q.attempts, q.next_attempt_at, q.requeued_at,
           q.attempts = 0 AND q.claims = 0 AND q.requeued_at IS NULL AND q.next_attempt_at > q.updated_at, q.app_id > 0,
           q.lease_claim, q.lease_until, q.lost_leases, q.last_error,
           e.event_id, e.created_at, e.deliver_at, d.disabled_at IS NOT NULL, d.paused_until,
           EXISTS (SELECT 1 FROM webhook_circuits c WHERE c.destination_id = q.destination_id AND c.expires_at > ?3)
    FROM webhook_queue q
    CROSS JOIN webhook_events e ON e.id = q.id
    CROSS JOIN webhook_destinations d ON d.id = q.destination_id
    WHERE q.id > ?1
    ORDER BY q.id LIMIT ?2";

/// A pending event that a walk examines.
struct PendingEvent {
    entry: QueueEntry,
    claim: Option<ClaimNumber>,
    lease_until: Option<Timestamp>,
    lost_leases: u32,
    last_error: Option<String>,
    event_id: EventId,
    created_at: Timestamp,
    deliver_at: Option<Timestamp>,
    hold: Option<Hold>,
}

impl PendingEvent {
    fn from_row(row: &Row<'_>, now: Timestamp) -> rusqlite::Result<Self> {
        const REST: usize = QueueEntry::COLUMNS;
        let is_paused = row::optional_timestamp(row, REST + 8)?.is_some_and(|until| until > now);
        Ok(Self {
            entry: QueueEntry::from_row(row)?,
            claim: row.get::<_, Option<i64>>(REST)?.map(ClaimNumber),
            lease_until: row::optional_timestamp(row, REST + 1)?,
            lost_leases: row.get(REST + 2)?,
            last_error: row.get(REST + 3)?,
            event_id: EventId::from_stored(row.get(REST + 4)?),
            created_at: row::timestamp(row, REST + 5)?,
            deliver_at: row::optional_timestamp(row, REST + 6)?,
            hold: Hold::of_destination(row.get(REST + 7)?, is_paused, row.get(REST + 9)?),
        })
    }

    /// Returns true if the event was first due or last requeued by `horizon`, and is not in flight.
    fn has_expired(&self, horizon: Timestamp, now: Timestamp) -> bool {
        let is_in_flight = self.lease_until.is_some_and(|until| until > now);
        let first_due_at = self.deliver_at.unwrap_or(self.created_at);
        !is_in_flight && self.entry.requeued_at.unwrap_or(first_due_at) <= horizon
    }
}

/// Dead-letters the expired events among the next `rows_max` pending events.
pub(crate) fn expire(
    db: &Connection,
    now: Timestamp,
    request: &ExpireRequest,
) -> Result<ExpireResponse, CallError> {
    let horizon = now.before(request.expire_after);
    let after = request.after.map_or(i64::MIN, |key| key.0);
    let rows_max = i64::try_from(request.rows_max).unwrap_or(i64::MAX);
    let mut pending = db.prepare_cached(PENDING_EVENTS)?;
    let examined: Vec<PendingEvent> = pending
        .query_map((after, rows_max, now.as_micros()), |row| PendingEvent::from_row(row, now))?
        .collect::<Result<_, _>>()?;
    let last = examined.last().filter(|_| examined.len() == request.rows_max);
    let next: Option<EventKey> = last.filter(|last| last.created_at <= horizon).map(|last| last.entry.key);

    let (mut totals, mut log, mut ended) =
        (TotalsChange::default(), LogBatch::default(), EndedLeases::default());
    let mut expired = Vec::new();
    for event in examined.into_iter().filter(|event| event.has_expired(horizon, now)) {
        let terminal = TerminalState::expired(request.expire_after, event.last_error.as_deref(), event.hold);
        let entry = &event.entry;
        match event.claim {
            Some(claim) => ended.add(claim, entry.is_retry()),
            None => destination_queue::remove(db, entry)?,
        }
        operate::fail_pending(db, now, entry.key, event.lost_leases, &terminal)?;
        totals.add_ended(entry.attempts, Some(terminal.failure_kind()));
        log.push(&LogEntry::without_attempt(entry.key, terminal.notice_kind(), entry.attempts));
        expired.push(event.event_id);
    }
    ended.write(db)?;
    log.write(db, now)?;
    totals.write(db)?;
    Ok(ExpireResponse { expired, next })
}
