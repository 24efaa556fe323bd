//! What operators do to events, each with its audit row; and the end without an attempt that a claim shares.

use posthaste_domain::{DeliveryStatus, Ending, EventId, EventKey, Timestamp};
use posthaste_store::{EventView, ManualAction, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::fault::Fault;
use crate::notices;
use crate::row::{self, event_columns};
use crate::totals::Change;

pub(crate) fn requeue(
    db: &Connection,
    now: Timestamp,
    event_id: &EventId,
    actor: &str,
) -> Result<EventView, Fault> {
    let found = find(db, event_id)?;
    if found.status != DeliveryStatus::Failed {
        return Err(StoreError::NotRequeueable { event_id: event_id.clone(), status: found.status }.into());
    }
    db.prepare_cached(
        "UPDATE webhook_outbox_events
         SET delivery_status = 'pending', failure_kind = NULL, attempts = 0, lost_leases = 0,
             next_attempt_at = ?2, last_error = NULL, updated_at = ?2,
             lease_token = NULL, lease_claim = NULL, lease_owner = NULL, lease_until = NULL
         WHERE id = ?1",
    )?
    .execute((found.key.0, now.as_micros()))?;
    let mut change = Change::default();
    change.requeued();
    change.write(db)?;
    audit(db, now, found.key, ManualAction::Requeue, actor)
}

pub(crate) fn cancel(
    db: &Connection,
    now: Timestamp,
    event_id: &EventId,
    actor: &str,
    reason: Option<&str>,
) -> Result<EventView, Fault> {
    let found = find(db, event_id)?;
    if found.status == DeliveryStatus::Delivered {
        return Err(StoreError::NotCancellable { event_id: event_id.clone(), status: found.status }.into());
    }
    let ending = Ending::cancelled(reason);
    end(db, now, found.key, found.lost_leases, &ending)?;
    // An event that was failed already has been counted and has had its notice.
    if found.status == DeliveryStatus::Pending {
        let mut change = Change::default();
        change.ended(found.attempts, ending.status());
        change.write(db)?;
        notices::publish(db, now, found.key, ending.notice())?;
    }
    audit(db, now, found.key, ManualAction::Cancel, actor)
}

/// The end without an attempt: by an operator, or because nobody could finish one.
pub(crate) fn end(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    lost_leases: u32,
    ending: &Ending,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_outbox_events
         SET delivery_status = ?2, failure_kind = ?3, last_error = ?4, lost_leases = ?5,
             next_attempt_at = NULL, updated_at = ?6,
             lease_token = NULL, lease_claim = NULL, lease_owner = NULL, lease_until = NULL
         WHERE id = ?1",
    )?
    .execute((
        key.0,
        ending.status().as_str(),
        ending.failure_kind().as_str(),
        ending.last_error(),
        lost_leases,
        now.as_micros(),
    ))?;
    Ok(())
}

struct Found {
    key: EventKey,
    status: DeliveryStatus,
    attempts: u32,
    lost_leases: u32,
}

fn find(db: &Connection, event_id: &EventId) -> Result<Found, Fault> {
    // Index: webhook_outbox_events_event_id.
    let found = db
        .prepare_cached(
            "SELECT id, delivery_status, attempts, lost_leases
             FROM webhook_outbox_events
             WHERE event_id = ?1",
        )?
        .query_row([event_id.as_str()], |row| {
            Ok(Found {
                key: EventKey(row.get(0)?),
                status: row::word(row, 1, DeliveryStatus::from_word)?,
                attempts: row.get(2)?,
                lost_leases: row.get(3)?,
            })
        })
        .optional()?;
    found.ok_or_else(|| StoreError::EventNotFound { event_id: event_id.clone() }.into())
}

/// Leaves the audit row, and the event as it now stands.
fn audit(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    action: ManualAction,
    actor: &str,
) -> Result<EventView, Fault> {
    db.prepare_cached("INSERT INTO webhook_audit (event_key, action, actor, at) VALUES (?1, ?2, ?3, ?4)")?
        .execute((key.0, action.as_str(), actor, now.as_micros()))?;
    let event = db
        .prepare_cached(concat!(
            "UPDATE webhook_outbox_events
             SET manual_last_action = ?2, manual_last_actor = ?3, manual_last_at = ?4
             WHERE id = ?1
             RETURNING ",
            event_columns!()
        ))?
        .query_row((key.0, action.as_str(), actor, now.as_micros()), row::event_view)?;
    Ok(event)
}
