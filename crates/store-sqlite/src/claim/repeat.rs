//! Repeated claims: a worker that got no response claims again under the same id.

use posthaste_domain::{DestinationId, EventKey, Lease, Timestamp};
use posthaste_store::{ClaimRequest, LeaseRef, split_held};
use rusqlite::{Connection, OptionalExtension as _};

use super::grant::read_lease;
use crate::claims::{self, ClaimNumber};
use crate::error::CallError;
use crate::lease;
use crate::token_seed::TokenSeed;

/// The leases that a repeated claim returns.
#[derive(Default)]
pub(super) struct RepeatedClaim {
    pub(super) leases: Vec<Lease>,
    /// Whether the claim released leases whose payloads did not fit its limit.
    pub(super) has_released: bool,
}

/// A lease that the claim still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct HeldLease {
    key: EventKey,
    seed: TokenSeed,
    destination: DestinationId,
}

/// Extends and returns the leases of an earlier claim with the same id, whose response did not reach the worker. Releases
/// the leases whose payloads do not fit the limit of the request. Returns none if there was no such claim or it holds no
/// lease any more.
pub(super) fn repeat(
    db: &Connection,
    now: Timestamp,
    request: &ClaimRequest,
) -> Result<RepeatedClaim, CallError> {
    let Some(claim) = claims::find(db, request)? else {
        return Ok(RepeatedClaim::default());
    };
    let mut held = Vec::new();
    for key in claims::granted_events(db, claim)? {
        held.extend(find_held(db, claim, key)?);
    }
    let (kept, released) = split_held(held, request.payload_bytes_max);
    let refs: Vec<LeaseRef> = released
        .iter()
        .map(|lease| LeaseRef { key: lease.key, token: lease.seed.token(lease.key) })
        .collect();
    if !refs.is_empty() {
        lease::release(db, now, &refs)?;
    }
    let mut extend = db.prepare_cached("UPDATE webhook_queue SET lease_until = ?2 WHERE id = ?1")?;
    let until = now.after(request.lease);
    let mut leases = Vec::new();
    for HeldLease { key, seed, destination } in kept {
        extend.execute((key.0, until.as_micros()))?;
        leases.push(read_lease(db, key, destination, seed, now, request.inline_payload_bytes_max)?.0);
    }
    leases.sort_unstable_by_key(|lease| lease.key);
    claims::record_check(db, claim, leases.iter().map(|lease| lease.key), until)?;
    claims::record_new_end(db, claim, request.lease, until)?;
    Ok(RepeatedClaim { leases, has_released: !refs.is_empty() })
}

/// Returns the lease that the claim holds on an event, after the size of its payload. All lookups are by primary key.
fn find_held(
    db: &Connection,
    claim: ClaimNumber,
    key: EventKey,
) -> rusqlite::Result<Option<(usize, HeldLease)>> {
    let mut find = db.prepare_cached(
        "SELECT q.destination_id, q.lease_token, coalesce(length(m.payload), 0)
         FROM webhook_queue q
         CROSS JOIN webhook_events e ON e.id = q.id
         CROSS JOIN webhook_messages m ON m.key = e.message_key
         WHERE q.id = ?1 AND q.lease_claim = ?2",
    )?;
    find.query_row((key.0, claim.0), |row| {
        let (destination, seed) = (DestinationId(row.get(0)?), TokenSeed::from_row(row, 1)?);
        let payload_bytes = usize::try_from(row.get::<_, i64>(2)?).unwrap_or(usize::MAX);
        Ok((payload_bytes, HeldLease { key, seed, destination }))
    })
    .optional()
}
