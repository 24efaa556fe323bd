//! Expired leases. Events that lost too many leases in a row are dead-lettered; the others may be granted again.

use posthaste_domain::{EventId, EventKey, TerminalState, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};

use crate::claims::{self, ClaimNumber, EndedLeases};
use crate::destination_queue::{QueueEntry, queue_entry_columns};
use crate::notices::{LogBatch, LogEntry};
use crate::operate;
use crate::row;
use crate::totals::TotalsChange;

/// A lease that a claim holds and that no other claim has taken over, expired or not.
pub(super) struct HeldLease {
    pub(super) entry: QueueEntry,
    pub(super) claim: ClaimNumber,
    until: Timestamp,
    /// Leases that the event lost in a row before this one.
    lost_leases: u32,
}

/// Returns all expired leases, even if the claim cannot grant them again. They are never more than the leases held.
pub(super) fn find_expired(db: &Connection, now: Timestamp) -> rusqlite::Result<Vec<HeldLease>> {
    let mut expired = Vec::new();
    for claim in claims::due_for_expiry_check(db, now)? {
        let granted = claims::granted_events(db, claim)?;
        let held = find_held(db, claim, &granted)?;
        let expiry_check_at = held.iter().map(|lease| lease.until).min().unwrap_or(now);
        // Skip the write if nothing changed: an expired lease that no claim takes over is found by every claim.
        if expiry_check_at > now || held.len() < granted.len() {
            claims::record_check(db, claim, held.iter().map(|lease| lease.entry.key), expiry_check_at)?;
        }
        expired.extend(held.into_iter().filter(|lease| lease.until <= now));
    }
    Ok(expired)
}

/// Returns the leases that a claim still holds among the events that it was granted.
fn find_held(db: &Connection, claim: ClaimNumber, granted: &[EventKey]) -> rusqlite::Result<Vec<HeldLease>> {
    let mut find = db.prepare_cached(concat!(
        "SELECT ",
        queue_entry_columns!(),
        ", lost_leases, lease_until FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2"
    ))?;
    let mut held = Vec::new();
    for key in granted {
        let found = find.query_row((key.0, claim.0), |row| {
            Ok(HeldLease {
                entry: QueueEntry::from_row(row)?,
                claim,
                lost_leases: row.get(QueueEntry::COLUMNS)?,
                until: row::timestamp(row, QueueEntry::COLUMNS + 1)?,
            })
        });
        held.extend(found.optional()?);
    }
    Ok(held)
}

/// Dead-letters the events that have now lost `abandon_after` leases in a row. Returns their ids, and the expired leases
/// of the events that may be granted again.
pub(super) fn abandon(
    db: &Connection,
    now: Timestamp,
    abandon_after: u32,
    expired: Vec<HeldLease>,
    ended: &mut EndedLeases,
) -> rusqlite::Result<(Vec<EventId>, Vec<HeldLease>)> {
    let (mut abandoned, mut claimable) = (Vec::new(), Vec::new());
    let (mut totals, mut log) = (TotalsChange::default(), LogBatch::default());
    for lease in expired {
        let lost_leases = lease.lost_leases.saturating_add(1);
        match TerminalState::after_lost_leases(lost_leases, abandon_after) {
            None => claimable.push(lease),
            Some(terminal) => {
                let entry = &lease.entry;
                operate::fail_pending(db, now, entry.key, lost_leases, &terminal)?;
                ended.add(lease.claim, entry.is_retry());
                totals.add_ended(entry.attempts, Some(terminal.failure_kind()));
                log.push(&LogEntry::without_attempt(entry.key, terminal.notice_kind(), entry.attempts));
                abandoned.push(read_event_id(db, entry.key)?);
            }
        }
    }
    log.write(db, now)?;
    totals.write(db)?;
    Ok((abandoned, claimable))
}

fn read_event_id(db: &Connection, key: EventKey) -> rusqlite::Result<EventId> {
    db.prepare_cached("SELECT event_id FROM webhook_events WHERE id = ?1")?
        .query_row([key.0], |row| row.get(0).map(EventId::from_stored))
}
