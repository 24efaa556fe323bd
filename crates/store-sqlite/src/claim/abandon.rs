//! Leases that have expired: events that lost too many in a row are given up, the others may be taken over.

use posthaste_domain::{Ending, EventId, EventKey, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};

use crate::claims::{self, ClaimNumber, Ended};
use crate::line::{Place, place_columns};
use crate::notices::{Entries, Entry};
use crate::operate;
use crate::row;
use crate::totals::Change;

/// An event whose lease has expired and was not taken over yet.
pub(super) struct Expired {
    pub(super) place: Place,
    pub(super) claim: ClaimNumber,
    lost_leases: u32,
}

/// All of them, whatever the claim has room for. There are never more than leases were out.
pub(super) fn expired(db: &Connection, now: Timestamp) -> rusqlite::Result<Vec<Expired>> {
    let mut expired = Vec::new();
    for claim in claims::due_for_a_check(db, now)? {
        let granted = claims::granted(db, claim)?;
        let held = held(db, claim, &granted)?;
        let check_at = held.iter().map(|lease| lease.until).min().unwrap_or(now);
        // Not again and again for a lease that expired and that nobody has room for.
        if check_at > now || held.len() < granted.len() {
            claims::checked(db, claim, held.iter().map(HeldByAClaim::key), check_at)?;
        }
        expired.extend(held.into_iter().filter(|lease| lease.until <= now).map(|lease| lease.event));
    }
    Ok(expired)
}

struct HeldByAClaim {
    event: Expired,
    until: Timestamp,
}

impl HeldByAClaim {
    fn key(&self) -> EventKey {
        self.event.place.key
    }
}

/// The leases that are left of those that a claim was granted.
fn held(db: &Connection, claim: ClaimNumber, granted: &[EventKey]) -> rusqlite::Result<Vec<HeldByAClaim>> {
    let mut find = db.prepare_cached(concat!(
        "SELECT ",
        place_columns!(),
        ", lost_leases, lease_until FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2"
    ))?;
    let mut held = Vec::new();
    for key in granted {
        let found = find.query_row((key.0, claim.0), |row| {
            let event = Expired { place: Place::of(row)?, claim, lost_leases: row.get(5)? };
            Ok(HeldByAClaim { event, until: row::moment(row, 6)? })
        });
        held.extend(found.optional()?);
    }
    Ok(held)
}

/// Dead-letters what has lost its last lease; hands back what may be granted again.
pub(super) fn abandon(
    db: &Connection,
    now: Timestamp,
    abandon_after: u32,
    expired: Vec<Expired>,
    ended: &mut Ended,
) -> rusqlite::Result<(Vec<EventId>, Vec<Expired>)> {
    let (mut abandoned, mut claimable) = (Vec::new(), Vec::new());
    let (mut change, mut entries) = (Change::default(), Entries::default());
    for lost in expired {
        let lost_leases = lost.lost_leases.saturating_add(1);
        match Ending::after_lost_leases(lost_leases, abandon_after) {
            None => claimable.push(lost),
            Some(ending) => {
                let place = &lost.place;
                operate::end(db, now, place.key, lost_leases, &ending)?;
                ended.count(lost.claim, place.is_retry());
                change.ended(place.attempts, ending.status());
                entries.push(&Entry::without_attempt(place.key, ending.notice(), place.attempts));
                abandoned.push(event_id(db, place.key)?);
            }
        }
    }
    entries.write(db, now)?;
    change.write(db)?;
    Ok((abandoned, claimable))
}

fn event_id(db: &Connection, key: EventKey) -> rusqlite::Result<EventId> {
    db.prepare_cached("SELECT event_id FROM webhook_events WHERE id = ?1")?
        .query_row([key.0], |row| row.get(0).map(EventId::stored))
}
