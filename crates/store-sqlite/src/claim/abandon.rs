//! Leases that have expired: events that lost too many in a row are given up, the others may be taken over.

use posthaste_domain::{DestinationId, Ending, EventId, EventKey, Timestamp};
use rusqlite::Connection;

use crate::notices;
use crate::operate;
use crate::totals::Change;

/// An event whose lease has expired and was not taken over yet.
pub(super) struct Expired {
    pub(super) key: EventKey,
    pub(super) destination: DestinationId,
    pub(super) is_retry: bool,
    attempts: u32,
    lost_leases: u32,
    event_id: EventId,
}

/// Index: webhook_outbox_events_leases, up to now.
pub(crate) const EXPIRED: &str = "
    SELECT id, destination_id, attempts, lost_leases, event_id
    FROM webhook_outbox_events INDEXED BY webhook_outbox_events_leases
    WHERE lease_until <= ?1";

/// All of them, whatever the claim has room for. There are never more than leases were out.
pub(super) fn expired(db: &Connection, now: Timestamp) -> rusqlite::Result<Vec<Expired>> {
    let mut expired = db.prepare_cached(EXPIRED)?;
    let rows = expired.query_map([now.as_micros()], |row| {
        let attempts = row.get(2)?;
        Ok(Expired {
            key: EventKey(row.get(0)?),
            destination: DestinationId(row.get(1)?),
            is_retry: attempts > 0,
            attempts,
            lost_leases: row.get(3)?,
            event_id: EventId::stored(row.get(4)?),
        })
    })?;
    rows.collect()
}

/// Dead-letters what has lost its last lease; hands back what may be granted again.
pub(super) fn abandon(
    db: &Connection,
    now: Timestamp,
    abandon_after: u32,
    expired: Vec<Expired>,
) -> rusqlite::Result<(Vec<EventId>, Vec<Expired>)> {
    let (mut abandoned, mut claimable) = (Vec::new(), Vec::new());
    let mut change = Change::default();
    for lost in expired {
        let lost_leases = lost.lost_leases.saturating_add(1);
        match Ending::after_lost_leases(lost_leases, abandon_after) {
            None => claimable.push(lost),
            Some(ending) => {
                operate::end(db, now, lost.key, lost_leases, &ending)?;
                change.ended(lost.attempts, ending.status());
                notices::publish(db, now, lost.key, ending.notice())?;
                abandoned.push(lost.event_id);
            }
        }
    }
    change.write(db)?;
    Ok((abandoned, claimable))
}
