//! Granting leases on what is due.
//!
//! What a claim costs follows what it grants, how many destinations it has to step over, and how many leases are out;
//! never the backlog of any destination, the retries that are not due, or the history:
//!
//! - **Expired leases** are looked for only in claims whose `check_at` has come, a lower bound of their first expiry.
//! - **Retries** are looked for only at destinations whose `retry_at` has come. That is a lower bound of their first
//!   retry, lowered by whoever puts a retry back and raised here.
//! - **First attempts** are due from the moment they are stored. They are found by stepping from destination to
//!   destination through a line that holds nothing else.
//!
//! A claim is maximal: each event that could be granted is either looked at while there is room for it, or stands
//! behind a limit that is used up, and no limit ever becomes free again within a claim.

pub(crate) mod abandon;
pub(crate) mod grant;

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::{ClaimRequest, Claimed};
use rusqlite::{Connection, OptionalExtension as _};

use crate::call::Writing;
use crate::claims::Ended;
use crate::fault::Fault;
use grant::Grant;

/// Where the last claim left off, so that the next one begins elsewhere. Kept by the writer and lost with it.
#[derive(Debug, Default)]
pub(crate) struct Rotation {
    /// The destination that was last granted a first attempt.
    last_served: i64,
    /// Whether first attempts go before retries; they take turns, so that neither starves the other of slots.
    first_attempts_first: bool,
}

pub(crate) fn claim(writing: &mut Writing<'_>, request: &ClaimRequest) -> Result<Claimed, Fault> {
    let db = writing.db;
    let granted_before = grant::granted_before(db, writing.now, request)?;
    if !granted_before.is_empty() {
        return Ok(Claimed { leases: granted_before, abandoned: Vec::new() });
    }
    let mut ended = Ended::default();
    let expired = abandon::expired(db, writing.now)?;
    let (abandoned, expired) = abandon::abandon(db, writing.now, request.abandon_after, expired, &mut ended)?;

    let mut room = Room::of(request, paused(db, writing.now)?);
    let mut grant = Grant::prepare(db, request, writing.now, writing.random)?;
    for lost in expired {
        let (destination, is_retry) = (lost.place.destination, lost.place.is_retry());
        if room.fits(destination, is_retry) {
            grant.take_over(&lost, &mut ended)?;
            room.take(destination, is_retry);
        }
    }
    let rotation = &mut *writing.rotation;
    if rotation.first_attempts_first {
        first_attempts(db, rotation, &mut room, &mut grant)?;
        retries(db, &mut room, &mut grant)?;
    } else {
        retries(db, &mut room, &mut grant)?;
        first_attempts(db, rotation, &mut room, &mut grant)?;
    }
    rotation.first_attempts_first = !rotation.first_attempts_first;
    let leases = grant.finish()?;
    // After this claim has taken its number: a claim that is forgotten here may have had the last.
    ended.write(db)?;
    Ok(Claimed { leases, abandoned })
}

/// Index: webhook_destinations_paused, from now on.
pub(crate) const PAUSED: &str = "SELECT id FROM webhook_destinations WHERE paused_until > ?1";

/// Destinations that asked to be left alone.
fn paused(db: &Connection, now: Timestamp) -> rusqlite::Result<BTreeSet<DestinationId>> {
    let mut paused = db.prepare_cached(PAUSED)?;
    paused.query_map([now.as_micros()], |row| row.get(0).map(DestinationId))?.collect()
}

/// Index: webhook_destinations_retries, up to now.
pub(crate) const DUE_DESTINATIONS: &str = "
    SELECT id FROM webhook_destinations
    WHERE retry_at <= ?1 AND (paused_until IS NULL OR paused_until <= ?1)
    ORDER BY retry_at";

/// One step into the line of retries.
pub(crate) const RAISE_RETRY_AT: &str = "
    UPDATE webhook_destinations
    SET retry_at = (SELECT next_attempt_at FROM webhook_retries
                    WHERE destination_id = ?1
                    ORDER BY next_attempt_at LIMIT 1)
    WHERE id = ?1";

/// The destinations whose first retry may be due, the longest due first.
fn retries(db: &Connection, room: &mut Room<'_>, grant: &mut Grant<'_>) -> rusqlite::Result<()> {
    if room.is_full() || room.retries == 0 {
        return Ok(());
    }
    let mut due = db.prepare_cached(DUE_DESTINATIONS)?;
    let mut visited = Vec::new();
    let mut rows = due.query([grant.now.as_micros()])?;
    while let Some(row) = rows.next()? {
        let destination = DestinationId(row.get(0)?);
        let count = room.for_retries_of(destination);
        if count > 0 {
            grant.retries_of(destination, count, room)?;
            visited.push(destination);
        }
        if room.is_full() || room.retries == 0 {
            break;
        }
    }
    drop(rows);
    // Not before the list of them has been read to its end: this moves them in it.
    let mut raise = db.prepare_cached(RAISE_RETRY_AT)?;
    for destination in visited {
        raise.execute([destination.0])?;
    }
    Ok(())
}

/// An equal share for each destination that has first attempts; what one does not need goes to the others.
///
/// Sharing is fair to receivers, and cheap: events that were enqueued together stand on the same pages, and are then
/// claimed together.
fn first_attempts(
    db: &Connection,
    rotation: &mut Rotation,
    room: &mut Room<'_>,
    grant: &mut Grant<'_>,
) -> rusqlite::Result<()> {
    let mut is_cut_off = true;
    while is_cut_off && !room.is_full() {
        let mut wanting = destinations_with_first_attempts(db, rotation.last_served, room)?;
        // A line of nothing but spent rows takes a place in this list and none in the room.
        is_cut_off = wanting.len() == room.total;
        while !room.is_full() && !wanting.is_empty() {
            let share = (room.total / wanting.len()).max(1);
            let mut still_wanting = Vec::new();
            for destination in wanting {
                let count = room.for_first_attempts_of(destination).min(share);
                if count == 0 {
                    continue;
                }
                if grant.first_attempts_of(destination, count, room)? == count {
                    still_wanting.push(destination);
                }
                rotation.last_served = destination.0;
            }
            wanting = still_wanting;
        }
    }
    Ok(())
}

/// One step through the lines of first attempts, however long they are.
pub(crate) const NEXT_DESTINATION: &str = "
    SELECT destination_id FROM webhook_ready
    WHERE destination_id > ?1 AND destination_id <= ?2
    ORDER BY destination_id LIMIT 1";

/// Once around, from the destination after the last that was served, and no more than could be granted one each.
fn destinations_with_first_attempts(
    db: &Connection,
    last_served: i64,
    room: &Room<'_>,
) -> rusqlite::Result<Vec<DestinationId>> {
    let mut next_after = db.prepare_cached(NEXT_DESTINATION)?;
    let mut found = Vec::new();
    for (mut after, end) in [(last_served, i64::MAX), (i64::MIN, last_served)] {
        while found.len() < room.total {
            let Some(next) = next_after.query_row((after, end), |row| row.get(0)).optional()? else {
                break;
            };
            after = next;
            if room.for_first_attempts_of(DestinationId(next)) > 0 {
                found.push(DestinationId(next));
            }
        }
    }
    Ok(found)
}

/// What a claim may still take.
struct Room<'a> {
    request: &'a ClaimRequest,
    paused: BTreeSet<DestinationId>,
    total: usize,
    retries: usize,
    taken: BTreeMap<DestinationId, usize>,
}

impl<'a> Room<'a> {
    fn of(request: &'a ClaimRequest, paused: BTreeSet<DestinationId>) -> Self {
        let (total, retries) = (request.limit, request.retries_max);
        Self { request, paused, total, retries, taken: BTreeMap::new() }
    }

    fn is_full(&self) -> bool {
        self.total == 0
    }

    fn for_first_attempts_of(&self, destination: DestinationId) -> usize {
        if self.paused.contains(&destination) {
            return 0;
        }
        let taken = self.taken.get(&destination).copied().unwrap_or(0);
        self.request.free_slots_of(destination).saturating_sub(taken).min(self.total)
    }

    fn for_retries_of(&self, destination: DestinationId) -> usize {
        self.for_first_attempts_of(destination).min(self.retries)
    }

    fn fits(&self, destination: DestinationId, is_retry: bool) -> bool {
        let room = if is_retry { Self::for_retries_of } else { Self::for_first_attempts_of };
        room(self, destination) > 0
    }

    fn take(&mut self, destination: DestinationId, is_retry: bool) {
        self.total -= 1;
        self.retries -= usize::from(is_retry);
        *self.taken.entry(destination).or_default() += 1;
    }
}
