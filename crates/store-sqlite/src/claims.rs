//! The claims that hold leases, one row each however many they hold.
//!
//! A claim knows the events that it was granted, and how many leases are left of them. It is forgotten with the last.
//! Its `check_at` is a lower bound of when the first of its leases expires: whoever shortens a lease lowers it, and who
//! looks at a claim whose time has come raises it. So expired leases are found without an index entry for each.

use std::collections::BTreeMap;

use posthaste_domain::{EventKey, Timestamp};
use posthaste_store::ClaimRequest;
use rusqlite::{Connection, OptionalExtension as _};

/// A claim's own number, short enough to stand in every row that it holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClaimNumber(pub(crate) i64);

/// A number that no claim has. It is taken by [`insert`], in the same transaction.
pub(crate) fn free_number(db: &Connection) -> rusqlite::Result<ClaimNumber> {
    db.prepare_cached("SELECT coalesce(max(id), 0) + 1 FROM webhook_claims")?
        .query_row([], |row| row.get(0).map(ClaimNumber))
}

/// How many leases a claim holds, by the kind of attempt that they are for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Held {
    first_attempts: i64,
    retries: i64,
}

impl Held {
    pub(crate) fn count(&mut self, is_retry: bool) {
        let count = if is_retry { &mut self.retries } else { &mut self.first_attempts };
        *count += 1;
    }
}

pub(crate) fn insert(
    db: &Connection,
    number: ClaimNumber,
    request: &ClaimRequest,
    until: Timestamp,
    held: Held,
    keys: impl Iterator<Item = EventKey>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_claims (id, claim, owner, first_attempts, retries, check_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute((
        number.0,
        request.id.as_uuid().into_bytes(),
        request.owner.as_str(),
        held.first_attempts,
        held.retries,
        until.as_micros(),
    ))?;
    db.prepare_cached("INSERT INTO webhook_claimed (claim, event_keys) VALUES (?1, ?2)")?
        .execute((number.0, packed(keys)))?;
    Ok(())
}

/// The claim that goes by this id, if any of its leases is left.
pub(crate) fn find(db: &Connection, request: &ClaimRequest) -> rusqlite::Result<Option<ClaimNumber>> {
    // Index: webhook_claims_claim.
    db.prepare_cached("SELECT id FROM webhook_claims WHERE claim = ?1")?
        .query_row([request.id.as_uuid().into_bytes()], |row| row.get(0).map(ClaimNumber))
        .optional()
}

/// Index: webhook_claims_check_at, up to now.
pub(crate) const DUE_FOR_A_CHECK: &str = "SELECT id FROM webhook_claims WHERE check_at <= ?1";

/// The claims among whose leases some may have expired.
pub(crate) fn due_for_a_check(db: &Connection, now: Timestamp) -> rusqlite::Result<Vec<ClaimNumber>> {
    let mut due = db.prepare_cached(DUE_FOR_A_CHECK)?;
    due.query_map([now.as_micros()], |row| row.get(0).map(ClaimNumber))?.collect()
}

/// What a claim was granted, in the order of the keys; what was checked and found gone may be missing.
pub(crate) fn granted(db: &Connection, claim: ClaimNumber) -> rusqlite::Result<Vec<EventKey>> {
    db.prepare_cached("SELECT event_keys FROM webhook_claimed WHERE claim = ?1")?
        .query_row([claim.0], |row| Ok(unpacked(row.get_ref(0)?.as_blob()?)))
}

/// After a check: what the claim still holds, and when to look again.
pub(crate) fn checked(
    db: &Connection,
    claim: ClaimNumber,
    keys: impl Iterator<Item = EventKey>,
    check_at: Timestamp,
) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE webhook_claimed SET event_keys = ?2 WHERE claim = ?1")?
        .execute((claim.0, packed(keys)))?;
    db.prepare_cached("UPDATE webhook_claims SET check_at = ?2 WHERE id = ?1")?
        .execute((claim.0, check_at.as_micros()))?;
    Ok(())
}

/// A lease of the claim may end as early as this.
pub(crate) fn check_by(db: &Connection, claim: ClaimNumber, until: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE webhook_claims SET check_at = ?2 WHERE id = ?1 AND check_at > ?2")?
        .execute((claim.0, until.as_micros()))?;
    Ok(())
}

/// Leases that a command ended, so that each claim is written once however many it lost.
#[derive(Default)]
pub(crate) struct Ended(BTreeMap<ClaimNumber, Held>);

impl Ended {
    pub(crate) fn count(&mut self, claim: ClaimNumber, is_retry: bool) {
        self.0.entry(claim).or_default().count(is_retry);
    }

    pub(crate) fn write(&self, db: &Connection) -> rusqlite::Result<()> {
        for (claim, ended) in &self.0 {
            db.prepare_cached(
                "UPDATE webhook_claims
                 SET first_attempts = first_attempts - ?2, retries = retries - ?3
                 WHERE id = ?1",
            )?
            .execute((claim.0, ended.first_attempts, ended.retries))?;
            let forgotten = db
                .prepare_cached(
                    "DELETE FROM webhook_claims WHERE id = ?1 AND first_attempts = 0 AND retries = 0",
                )?
                .execute([claim.0])?;
            if forgotten == 1 {
                db.prepare_cached("DELETE FROM webhook_claimed WHERE claim = ?1")?.execute([claim.0])?;
            }
        }
        Ok(())
    }
}

fn packed(keys: impl Iterator<Item = EventKey>) -> Vec<u8> {
    keys.flat_map(|key| key.0.to_be_bytes()).collect()
}

fn unpacked(keys: &[u8]) -> Vec<EventKey> {
    let (keys, _) = keys.as_chunks();
    let mut keys: Vec<EventKey> = keys.iter().map(|key| EventKey(i64::from_be_bytes(*key))).collect();
    keys.sort_unstable();
    keys
}
