//! Renewal and release of leases, each fenced by its token. See `crates/engine/src/lease_protocol.md` for why these fences
//! are enough.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::Timestamp;
use posthaste_store::LeaseRef;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::claims::{self, ClaimNumber, EndedLeases};
use crate::destination::DestinationUpdates;
use crate::destination_queue::{self, QueueEntry, queue_entry_columns};
use crate::error::CallError;
use crate::token_seed::TokenSeed;

/// Reads the queue entry of a leased event and the claim that holds the lease. Returns no row if the event no longer
/// has a lease under this seed.
const HELD: &str = concat!(
    "SELECT ",
    queue_entry_columns!(),
    ", lease_claim FROM webhook_queue WHERE id = ?1 AND lease_token = ?2"
);

fn find_held(
    held: &mut CachedStatement<'_>,
    lease: &LeaseRef,
) -> rusqlite::Result<Option<(QueueEntry, ClaimNumber)>> {
    let by = (lease.key.0, TokenSeed::of_lease(lease.key, lease.token).into_bytes());
    held.query_row(by, |row| Ok((QueueEntry::from_row(row)?, ClaimNumber(row.get(QueueEntry::COLUMNS)?))))
        .optional()
}

/// Reads the payload of a leased event. Returns no row if the event no longer has a lease under this seed. All lookups are
/// by primary key.
pub(crate) const PAYLOAD: &str = "
    SELECT m.payload
    FROM webhook_queue q
    CROSS JOIN webhook_events e ON e.id = q.id
    CROSS JOIN webhook_messages m ON m.key = e.message_key
    WHERE q.id = ?1 AND q.lease_token = ?2";

/// Reads the payload of a leased event, or returns none if the lease was lost.
pub(crate) fn read_payload(db: &Connection, lease: LeaseRef) -> Result<Option<Bytes>, CallError> {
    let by = (lease.key.0, TokenSeed::of_lease(lease.key, lease.token).into_bytes());
    let read = db.prepare_cached(PAYLOAD)?.query_row(by, |row| {
        Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob_or_null()?.unwrap_or_default()))
    });
    Ok(read.optional()?)
}

/// Extends leases so that they expire `lease` from now. Returns the lost leases. An expired lease that no claim has
/// taken over can still be extended.
pub(crate) fn renew(
    db: &Connection,
    now: Timestamp,
    leases: &[LeaseRef],
    lease: Duration,
) -> Result<Vec<LeaseRef>, CallError> {
    let until = now.after(lease);
    let mut held = db.prepare_cached(HELD)?;
    let mut extend = db.prepare_cached("UPDATE webhook_queue SET lease_until = ?2 WHERE id = ?1")?;
    let (mut lost, mut extended_claims) = (Vec::new(), BTreeSet::new());
    for lease in leases {
        match find_held(&mut held, lease)? {
            None => lost.push(*lease),
            Some((entry, claim)) => {
                extend.execute((entry.key.0, until.as_micros()))?;
                extended_claims.insert(claim);
            }
        }
    }
    for claim in extended_claims {
        claims::record_new_end(db, claim, lease, until)?;
    }
    Ok(lost)
}

/// Ends leases without recording an attempt and returns their events to the queues. Skips leases that the caller has
/// lost.
pub(crate) fn release(db: &Connection, now: Timestamp, leases: &[LeaseRef]) -> Result<(), CallError> {
    let mut held = db.prepare_cached(HELD)?;
    let mut clear_lease = db.prepare_cached(
        "UPDATE webhook_queue
         SET lease_token = NULL, lease_claim = NULL, lease_until = NULL, updated_at = ?2, next_attempt_at = ?3
         WHERE id = ?1",
    )?;
    let (mut destinations, mut ended) = (DestinationUpdates::default(), EndedLeases::default());
    for lease in leases {
        let Some((entry, claim)) = find_held(&mut held, lease)? else {
            continue;
        };
        // The event was due when it was leased, also if the clock has stepped back since.
        let entry = QueueEntry { due: entry.due.min(now), is_deferred: false, ..entry };
        clear_lease.execute((entry.key.0, now.as_micros(), entry.due.as_micros()))?;
        destination_queue::insert(db, &entry)?;
        ended.add(claim, entry.is_retry());
        if entry.is_retry() {
            destinations.add_retry(entry.destination, entry.due);
        }
    }
    ended.write(db)?;
    destinations.write(db, now)?;
    Ok(())
}
