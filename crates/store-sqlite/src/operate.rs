//! What operators do to events, each with its audit row; and the end without an attempt that a claim shares.

use posthaste_domain::{DeliveryStatus, Ending, EventId, EventKey, Timestamp};
use posthaste_store::{EventView, ManualAction, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::claims::{ClaimNumber, Ended};
use crate::fault::Fault;
use crate::line;
use crate::notices::{Entries, Entry};
use crate::row;
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
        "INSERT INTO webhook_queue
             (id, destination_id, claims, next_attempt_at, updated_at, requeued_at, last_attempted_at)
         SELECT id, destination_id, claims, ?2, ?2, ?2, last_attempted_at
         FROM webhook_failures
         WHERE id = ?1",
    )?
    .execute((found.key.0, now.as_micros()))?;
    let (place, _) = line::find(db, found.key)?.expect("it was just put there");
    line::put(db, &place)?;
    db.prepare_cached("DELETE FROM webhook_failures WHERE id = ?1")?.execute([found.key.0])?;
    let mut change = Change::default();
    change.requeued();
    change.write(db)?;
    audit(db, now, found.key, ManualAction::Requeue, actor, None)
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
    match line::find(db, found.key)? {
        // An event that was failed already has been counted and has had its notice.
        None => end_again(db, now, found.key, &ending)?,
        Some((place, claim)) => {
            let mut ended = Ended::default();
            match claim {
                Some(claim) => ended.count(ClaimNumber(claim), place.is_retry()),
                None => line::remove(db, &place)?,
            }
            end(db, now, found.key, found.lost_leases, &ending)?;
            ended.write(db)?;
            let mut change = Change::default();
            change.ended(place.attempts, ending.status());
            change.write(db)?;
            let mut entries = Entries::default();
            entries.push(&Entry::without_attempt(found.key, ending.notice(), place.attempts));
            entries.write(db, now)?;
        }
    }
    audit(db, now, found.key, ManualAction::Cancel, actor, ending.reason())
}

/// The end without an attempt: by an operator, or because nobody could finish one. The caller sees to what the event
/// leaves behind: its place in line or its lease.
pub(crate) fn end(
    db: &Connection,
    now: Timestamp,
    key: EventKey,
    lost_leases: u32,
    ending: &Ending,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_failures
             (id, destination_id, failure_kind, attempts, claims, lost_leases, last_attempted_at, last_error,
              updated_at)
         SELECT id, destination_id, ?2, attempts, claims, ?3, last_attempted_at, ?4, ?5
         FROM webhook_queue
         WHERE id = ?1",
    )?
    .execute((
        key.0,
        ending.failure_kind().as_str(),
        lost_leases,
        ending.last_error(),
        now.as_micros(),
    ))?;
    db.prepare_cached("DELETE FROM webhook_queue WHERE id = ?1")?.execute([key.0])?;
    Ok(())
}

/// Another end for what has failed.
fn end_again(db: &Connection, now: Timestamp, key: EventKey, ending: &Ending) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_failures SET failure_kind = ?2, last_error = ?3, updated_at = ?4 WHERE id = ?1",
    )?
    .execute((key.0, ending.failure_kind().as_str(), ending.last_error(), now.as_micros()))?;
    Ok(())
}

struct Found {
    key: EventKey,
    status: DeliveryStatus,
    lost_leases: u32,
}

fn find(db: &Connection, event_id: &EventId) -> Result<Found, Fault> {
    // Index: webhook_events_event_id.
    let found = db
        .prepare_cached(
            "SELECT id, delivery_status, lost_leases
             FROM webhook_outbox_events
             WHERE event_id = ?1",
        )?
        .query_row([event_id.as_str()], |row| {
            Ok(Found {
                key: EventKey(row.get(0)?),
                status: row::word(row, 1, DeliveryStatus::from_word)?,
                lost_leases: row.get(2)?,
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
    reason: Option<&str>,
) -> Result<EventView, Fault> {
    db.prepare_cached(
        "INSERT INTO webhook_audit (event_key, action, actor, at, reason) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((key.0, action.as_str(), actor, now.as_micros(), reason))?;
    Ok(row::event(db, key)?)
}
