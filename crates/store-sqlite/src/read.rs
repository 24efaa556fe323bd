//! Reads for operators: the overview and one event. None of them reads a payload.

use std::time::Duration;

use posthaste_domain::{ErrorClass, EventId, EventKey, Excerpt, LeaseToken, Timestamp, Trigger, WorkerId};
use posthaste_store::{AttemptView, AuditView, EventDetail, Overview, StoreError};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::claims;
use crate::destination_view;
use crate::error::CallError;
use crate::row::{self, event_columns};

/// Counts events by state; `pending_ready` does not include events whose leases have expired, which the caller adds.
/// First attempts are due unless they are leased or deferred; due retries and due deferred events are counted. The cost grows
/// with the claims that hold leases and the events that are counted.
///
/// Indexes: webhook_destinations_earliest_retry_at, webhook_destinations_earliest_deferred_at. The oldest pending event has the lowest key.
pub(crate) const OVERVIEW: &str = "
    SELECT
        pending,
        pending - retrying - deferred
            - (SELECT coalesce(sum(first_attempt_leases), 0) FROM webhook_claims)
            + (SELECT count(*)
               FROM webhook_destinations d INDEXED BY webhook_destinations_earliest_retry_at
               CROSS JOIN webhook_retries r
               WHERE d.earliest_retry_at <= ?1 AND r.destination_id = d.id AND r.next_attempt_at <= ?1)
            + (SELECT count(*)
               FROM webhook_destinations d INDEXED BY webhook_destinations_earliest_deferred_at
               CROSS JOIN webhook_deferred r
               WHERE d.earliest_deferred_at <= ?1 AND r.destination_id = d.id AND r.next_attempt_at <= ?1),
        retrying,
        failed,
        cancelled,
        delivered,
        (SELECT created_at FROM webhook_events WHERE id = (SELECT min(id) FROM webhook_queue))
    FROM webhook_totals
    WHERE id = 1";

pub(crate) fn overview(db: &Connection, now: Timestamp) -> Result<Overview, CallError> {
    let held = destination_view::count_held(db, now)?;
    let mut overview = db.prepare_cached(OVERVIEW)?.query_row([now.as_micros()], |row| {
        Ok(Overview {
            pending: row::unsigned(row, 0)?,
            pending_ready: row::unsigned(row, 1)?,
            retrying: row::unsigned(row, 2)?,
            failed: row::unsigned(row, 3)?,
            cancelled: row::unsigned(row, 4)?,
            delivered: row::unsigned(row, 5)?,
            held,
            oldest_pending_age: row::optional_timestamp(row, 6)?.map(|created_at| now.since(created_at)),
        })
    })?;
    overview.pending_ready += count_expired_leases(db, now)?;
    Ok(overview)
}

/// Counts the expired leases that no claim has taken over.
fn count_expired_leases(db: &Connection, now: Timestamp) -> rusqlite::Result<u64> {
    let mut is_expired = db.prepare_cached(
        "SELECT 1 FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2 AND lease_until <= ?3",
    )?;
    let mut expired = 0;
    for claim in claims::due_for_expiry_check(db, now)? {
        for key in claims::granted_events(db, claim)? {
            expired += u64::from(is_expired.exists((key.0, claim.0, now.as_micros()))?);
        }
    }
    Ok(expired)
}

/// Reads one event with its attempts and operator actions.
pub(crate) fn event(db: &Connection, event_id: &EventId) -> Result<EventDetail, CallError> {
    // Index: webhook_events_event_id.
    let found = db
        .prepare_cached(concat!(
            "SELECT ",
            event_columns!(),
            " FROM webhook_outbox_events v WHERE v.event_id = ?1"
        ))?
        .query_row([event_id.as_str()], row::event_view)
        .optional()?;
    let Some(event) = found else {
        return Err(explain_missing(db, event_id)?.into());
    };
    let history = read_attempts(db, event.key)?;
    let audit = read_audit(db, event.key)?;
    Ok(EventDetail { event, history, audit })
}

/// Returns the error for an event that does not exist: an operator discarded it, or its id is unknown.
pub(crate) fn explain_missing(db: &Connection, event_id: &EventId) -> rusqlite::Result<StoreError> {
    // Index: webhook_discarded_events_event_id. The discard is the last action on its event.
    let key = db
        .prepare_cached("SELECT id FROM webhook_discarded_events WHERE event_id = ?1")?
        .query_row([event_id.as_str()], |row| row.get(0).map(EventKey))
        .optional()?;
    let audit = match key {
        Some(key) => read_audit(db, key)?,
        None => Vec::new(),
    };
    let event_id = event_id.clone();
    Ok(match audit.into_iter().next_back() {
        Some(discard) => StoreError::EventDiscarded { event_id, discard },
        None => StoreError::EventNotFound { event_id },
    })
}

/// The columns of `webhook_attempts a` that [`attempt_view`] reads, in its order.
macro_rules! attempt_columns {
    () => {
        "a.lease_token, a.attempt, a.trigger, a.started_at, a.duration_us, a.http_status, a.error_class, a.excerpt,
         a.worker_id, a.applied"
    };
}
pub(crate) use attempt_columns;

pub(crate) fn attempt_view(row: &Row<'_>) -> rusqlite::Result<AttemptView> {
    Ok(AttemptView {
        token: LeaseToken::from_uuid(row::uuid(row, 0)?),
        attempt: row.get(1)?,
        trigger: row::decode(row, 2, Trigger::from_name)?,
        started_at: row::timestamp(row, 3)?,
        duration: Duration::from_micros(row::unsigned(row, 4)?),
        http_status: row.get(5)?,
        error_class: row::decode_optional(row, 6, ErrorClass::from_name)?,
        excerpt: Excerpt::from_stored(row.get(7)?),
        worker: WorkerId::from_stored(row.get(8)?),
        applied: row.get(9)?,
    })
}

fn read_attempts(db: &Connection, key: EventKey) -> rusqlite::Result<Vec<AttemptView>> {
    let mut attempts = db.prepare_cached(concat!(
        "SELECT ",
        attempt_columns!(),
        " FROM webhook_attempts a WHERE a.event_key = ?1 ORDER BY a.position"
    ))?;
    let rows = attempts.query_map([key.0], attempt_view)?;
    rows.collect()
}

fn read_audit(db: &Connection, key: EventKey) -> rusqlite::Result<Vec<AuditView>> {
    // Index: webhook_audit_event.
    let mut audit = db.prepare_cached(
        "SELECT action, actor, at, reason FROM webhook_audit WHERE event_key = ?1 ORDER BY id",
    )?;
    let rows = audit.query_map([key.0], row::audit)?;
    rows.collect()
}
