//! Extending leases and giving them back, each fenced by its token.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_store::HeldLease;
use rusqlite::{CachedStatement, Connection, OptionalExtension as _};

use crate::claims::{self, ClaimNumber, Ended};
use crate::destination::News;
use crate::fault::Fault;
use crate::line::{self, Place, place_columns};

/// The event's place and the lease's claim, if the lease is still the event's.
const HELD: &str = concat!(
    "SELECT ",
    place_columns!(),
    ", lease_claim FROM webhook_queue WHERE id = ?1 AND lease_token = ?2"
);

fn find(held: &mut CachedStatement<'_>, lease: &HeldLease) -> rusqlite::Result<Option<(Place, ClaimNumber)>> {
    let by = (lease.key.0, lease.token.as_uuid().into_bytes());
    held.query_row(by, |row| Ok((Place::of(row)?, ClaimNumber(row.get(5)?)))).optional()
}

/// An expired lease that nobody took over is still its holder's to extend.
pub(crate) fn renew(
    db: &Connection,
    now: Timestamp,
    leases: &[HeldLease],
    lease: Duration,
) -> Result<Vec<HeldLease>, Fault> {
    let until = now.after(lease);
    let mut held = db.prepare_cached(HELD)?;
    let mut extend = db.prepare_cached("UPDATE webhook_queue SET lease_until = ?2 WHERE id = ?1")?;
    let (mut lost, mut of_claims) = (Vec::new(), BTreeSet::new());
    for lease in leases {
        match find(&mut held, lease)? {
            None => lost.push(*lease),
            Some((place, claim)) => {
                extend.execute((place.key.0, until.as_micros()))?;
                of_claims.insert(claim);
            }
        }
    }
    for claim in of_claims {
        claims::check_by(db, claim, until)?;
    }
    Ok(lost)
}

pub(crate) fn release(db: &Connection, now: Timestamp, leases: &[HeldLease]) -> Result<(), Fault> {
    let mut held = db.prepare_cached(HELD)?;
    let mut give_back = db.prepare_cached(
        "UPDATE webhook_queue
         SET lease_token = NULL, lease_claim = NULL, lease_until = NULL, updated_at = ?2
         WHERE id = ?1",
    )?;
    let (mut news, mut ended) = (News::default(), Ended::default());
    for lease in leases {
        let Some((place, claim)) = find(&mut held, lease)? else {
            continue;
        };
        give_back.execute((place.key.0, now.as_micros()))?;
        line::put(db, &place)?;
        ended.count(claim, place.is_retry());
        if place.is_retry() {
            news.retry(place.destination, place.due);
        }
    }
    ended.write(db)?;
    news.write(db, now)?;
    Ok(())
}
