//! The claims that hold leases: one row per claim, however many leases it holds.
//!
//! A claim stores the events that it was granted and the number of leases that it still holds. Its rows are deleted
//! with the last lease. Its `expiry_check_at` is a lower bound of the time when its first lease expires: a write that
//! shortens a lease lowers it, and a check of the claim raises it. So expired leases are found without an index entry
//! per lease.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{ClaimId, DestinationId, EventKey, Timestamp, WorkerId};
use posthaste_store::ClaimRequest;
use rusqlite::{Connection, OptionalExtension as _};

/// The number of a claim, `webhook_claims.id`. Leased rows store it instead of the claim's UUID, because it is shorter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimNumber(pub(crate) i64);

/// Returns a number that no claim has. The caller must [`insert`] the claim in the same transaction.
pub(crate) fn next_claim_number(db: &Connection) -> rusqlite::Result<ClaimNumber> {
    db.prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM webhook_claims")?
        .query_row([], |row| row.get(0).map(ClaimNumber))
}

/// How many leases a claim holds or a command ended, counted separately for first attempts and retries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct LeaseCounts {
    first_attempts: i64,
    retries: i64,
}

impl LeaseCounts {
    pub(crate) fn add(&mut self, is_retry: bool) {
        let count = if is_retry { &mut self.retries } else { &mut self.first_attempts };
        *count += 1;
    }
}

/// A claim to store.
pub(crate) struct NewClaim<'a> {
    pub(crate) number: ClaimNumber,
    pub(crate) id: ClaimId,
    pub(crate) owner: &'a WorkerId,
    pub(crate) lease: Duration,
    /// When all its leases expire.
    pub(crate) until: Timestamp,
}

/// Stores a new claim with the events that it was granted.
pub(crate) fn insert(
    db: &Connection,
    claim: &NewClaim<'_>,
    leases: LeaseCounts,
    keys: impl Iterator<Item = EventKey>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_claims
             (id, claim_uuid, owner, first_attempt_leases, retry_leases, expiry_check_at, lease_us, event_keys)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
    )?
    .execute((
        claim.number.0,
        claim.id.as_uuid().into_bytes(),
        claim.owner.as_str(),
        leases.first_attempts,
        leases.retries,
        claim.until.as_micros(),
        lease_us(claim.lease),
        pack_keys(keys),
    ))?;
    Ok(())
}

/// The claim with a UUID. Reads all claims: there are no more of them than leases.
pub(crate) const FIND: &str = "SELECT id FROM webhook_claims WHERE claim_uuid = ?1";

/// Finds the claim that was made with the request's id, if it still holds a lease.
pub(crate) fn find(db: &Connection, request: &ClaimRequest) -> rusqlite::Result<Option<ClaimNumber>> {
    db.prepare_cached(FIND)?
        .query_row([request.id.as_uuid().into_bytes()], |row| row.get(0).map(ClaimNumber))
        .optional()
}

/// Claims whose `expiry_check_at` has passed. Reads all claims: there are no more of them than leases.
pub(crate) const DUE_FOR_EXPIRY_CHECK: &str = "SELECT id FROM webhook_claims WHERE expiry_check_at <= ?1";

/// Returns the claims that may hold expired leases.
pub(crate) fn due_for_expiry_check(db: &Connection, now: Timestamp) -> rusqlite::Result<Vec<ClaimNumber>> {
    let mut due = db.prepare_cached(DUE_FOR_EXPIRY_CHECK)?;
    due.query_map([now.as_micros()], |row| row.get(0).map(ClaimNumber))?.collect()
}

/// Returns all claims that hold leases.
pub(crate) fn all(db: &Connection) -> rusqlite::Result<Vec<ClaimNumber>> {
    let mut claims = db.prepare_cached("SELECT id FROM webhook_claims")?;
    claims.query_map([], |row| row.get(0).map(ClaimNumber))?.collect()
}

/// Returns the events of a destination that are leased. Reads all leases.
pub(crate) fn leased_events(db: &Connection, destination: DestinationId) -> rusqlite::Result<Vec<EventKey>> {
    let mut is_held = db.prepare_cached(
        "SELECT 1 FROM webhook_queue WHERE id = ?1 AND lease_claim = ?2 AND destination_id = ?3",
    )?;
    let mut leased = Vec::new();
    for claim in all(db)? {
        for key in granted_events(db, claim)? {
            if is_held.exists((key.0, claim.0, destination.0))? {
                leased.push(key);
            }
        }
    }
    Ok(leased)
}

/// Returns the events that a claim was granted, in key order, without those that an earlier expiry check found to be no
/// longer held.
pub(crate) fn granted_events(db: &Connection, claim: ClaimNumber) -> rusqlite::Result<Vec<EventKey>> {
    db.prepare_cached("SELECT event_keys FROM webhook_claims WHERE id = ?1")?
        .query_row([claim.0], |row| Ok(unpack_keys(row.get_ref(0)?.as_blob()?)))
}

/// Stores the result of an expiry check: the events that the claim still holds, and the time of the next check.
pub(crate) fn record_check(
    db: &Connection,
    claim: ClaimNumber,
    held: impl Iterator<Item = EventKey>,
    expiry_check_at: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE webhook_claims SET expiry_check_at = ?2, event_keys = ?3 WHERE id = ?1")?
        .execute((claim.0, expiry_check_at.as_micros(), pack_keys(held)))?;
    Ok(())
}

/// Records that a lease of a claim was renewed for `lease`, or shortened to it, and so ends at `until`: lowers the claim's
/// `expiry_check_at` and raises its `lease_us`.
pub(crate) fn record_new_end(
    db: &Connection,
    claim: ClaimNumber,
    lease: Duration,
    until: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_claims
         SET expiry_check_at = min(expiry_check_at, ?2), lease_us = max(lease_us, ?3)
         WHERE id = ?1 AND (expiry_check_at > ?2 OR lease_us < ?3)",
    )?
    .execute((claim.0, until.as_micros(), lease_us(lease)))?;
    Ok(())
}

/// Returns all claims, each with the longest duration of its leases.
pub(crate) fn all_with_duration(db: &Connection) -> rusqlite::Result<Vec<(ClaimNumber, Duration)>> {
    let mut claims = db.prepare_cached("SELECT id, lease_us FROM webhook_claims")?;
    let claims = claims.query_map([], |row| {
        let lease_us = u64::try_from(row.get::<_, i64>(1)?).unwrap_or_default();
        Ok((ClaimNumber(row.get(0)?), Duration::from_micros(lease_us)))
    })?;
    claims.collect()
}

fn lease_us(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX)
}

/// Leases that a command ended, summed up so that each claim's row is written once.
#[derive(Default)]
pub(crate) struct EndedLeases(BTreeMap<ClaimNumber, LeaseCounts>);

impl EndedLeases {
    pub(crate) fn add(&mut self, claim: ClaimNumber, is_retry: bool) {
        self.0.entry(claim).or_default().add(is_retry);
    }

    /// Subtracts the ended leases from their claims and deletes the claims that hold no more leases.
    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        for (claim, ended) in &self.0 {
            db.prepare_cached(
                "UPDATE webhook_claims
                 SET first_attempt_leases = first_attempt_leases - ?2, retry_leases = retry_leases - ?3
                 WHERE id = ?1",
            )?
            .execute((claim.0, ended.first_attempts, ended.retries))?;
            db.prepare_cached(
                "DELETE FROM webhook_claims
                 WHERE id = ?1 AND first_attempt_leases = 0 AND retry_leases = 0",
            )?
            .execute([claim.0])?;
        }
        Ok(())
    }
}

fn pack_keys(keys: impl Iterator<Item = EventKey>) -> Vec<u8> {
    keys.flat_map(|key| key.0.to_be_bytes()).collect()
}

fn unpack_keys(keys: &[u8]) -> Vec<EventKey> {
    let (keys, _) = keys.as_chunks();
    let mut keys: Vec<EventKey> = keys.iter().map(|key| EventKey(i64::from_be_bytes(*key))).collect();
    keys.sort_unstable();
    keys
}
