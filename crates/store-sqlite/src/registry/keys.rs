//! Keys and custom headers of destinations, sealed. Index of all statements on one destination:
//! webhook_sealed_values_destination.

use posthaste_domain::seal::{SealedId, SealedValue};
use posthaste_domain::signature::{DESTINATION_KEYS_MAX, KeyKind};
use posthaste_domain::{DestinationId, Timestamp};
use posthaste_store::{
    DestinationAction, DestinationKey, DestinationProfile, KeyGrace, NewKey, NewSecrets, Reseal, RotateKey,
    StoreError,
};
use rusqlite::{Connection, OptionalExtension as _, Row};

use crate::destination::record_audit;
use crate::error::CallError;
use crate::row;

/// The kind under which custom headers are stored.
const HEADERS: &str = "headers";

/// A rotation that the writer thread can run, and run again after a rollback.
pub(super) struct OwnedRotation {
    pub(super) key: NewKey,
    pub(super) grace: KeyGrace,
    pub(super) actor: String,
}

impl From<&RotateKey<'_>> for OwnedRotation {
    fn from(request: &RotateKey<'_>) -> Self {
        Self { key: request.key.clone(), grace: request.grace, actor: request.actor.to_owned() }
    }
}

fn sealed_value(row: &Row<'_>, id: usize, bytes: usize) -> rusqlite::Result<SealedValue> {
    Ok(SealedValue { id: SealedId::from_uuid(row::uuid(row, id)?), bytes: row.get(bytes)? })
}

/// Adds 1 to the version of a destination's URL, keys and headers. Workers have read only versions above zero, so they are informed
/// only of changes of those: claims beside many new endpoints list none of them.
pub(super) fn change_profile(db: &Connection, now: Timestamp, id: DestinationId) -> rusqlite::Result<()> {
    db.prepare_cached(
        "UPDATE webhook_destinations
         SET profile_version = profile_version + 1,
             profile_updated_at = CASE WHEN profile_version > 0 THEN ?2 END
         WHERE id = ?1",
    )?
    .execute((id.0, now.as_micros()))?;
    Ok(())
}

fn insert(
    db: &Connection,
    now: Timestamp,
    destination: DestinationId,
    kind: &str,
    sealed: &SealedValue,
    created_by: Option<&str>,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT INTO webhook_sealed_values (id, destination_id, kind, sealed, created_at, created_by)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute((
        sealed.id.as_uuid().into_bytes(),
        destination.0,
        kind,
        &sealed.bytes,
        now.as_micros(),
        created_by,
    ))?;
    Ok(())
}

/// Stores the key and the headers of a new endpoint.
pub(super) fn add_first(
    db: &Connection,
    now: Timestamp,
    destination: DestinationId,
    NewSecrets { key, headers }: &NewSecrets,
) -> rusqlite::Result<()> {
    insert(db, now, destination, key.kind.as_str(), &key.sealed, None)?;
    if let Some(headers) = headers {
        insert(db, now, destination, HEADERS, headers, None)?;
    }
    change_profile(db, now, destination)
}

/// Returns the version of a destination's profile. Fails if there is no such destination.
fn version(db: &Connection, id: DestinationId) -> Result<i64, CallError> {
    let version = db
        .prepare_cached("SELECT profile_version FROM webhook_destinations WHERE id = ?1")?
        .query_row([id.0], |row| row.get(0))
        .optional()?;
    Ok(version.ok_or(StoreError::DestinationNotFound { id: id.0 })?)
}

/// The keys of a destination that have not retired, newest first.
const VALID: &str = "
    SELECT kind, id, sealed, created_at, created_by, retires_at
    FROM webhook_sealed_values
    WHERE destination_id = ?1 AND kind <> 'headers' AND (retires_at IS NULL OR retires_at > ?2)
    ORDER BY number DESC";

fn read_valid(db: &Connection, now: Timestamp, id: DestinationId) -> rusqlite::Result<Vec<DestinationKey>> {
    let mut valid = db.prepare_cached(VALID)?;
    let keys = valid.query_map((id.0, now.as_micros()), |row| {
        Ok(DestinationKey {
            kind: row::decode(row, 0, KeyKind::from_name)?,
            sealed: sealed_value(row, 1, 2)?,
            created_at: row::timestamp(row, 3)?,
            created_by: row.get(4)?,
            retires_at: row::optional_timestamp(row, 5)?,
        })
    })?;
    keys.collect()
}

/// Returns the valid keys of a destination, newest first.
pub(super) fn valid(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
) -> Result<Vec<DestinationKey>, CallError> {
    version(db, id)?;
    Ok(read_valid(db, now, id)?)
}

/// Adds a key and sets when the newest one before it retires. Changes nothing if the key is stored already.
pub(super) fn rotate(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    OwnedRotation { key, grace, actor }: &OwnedRotation,
) -> Result<Vec<DestinationKey>, CallError> {
    version(db, id)?;
    let valid = read_valid(db, now, id)?;
    let is_stored = db
        .prepare_cached("SELECT 1 FROM webhook_sealed_values WHERE id = ?1 AND destination_id = ?2")?
        .exists((key.sealed.id.as_uuid().into_bytes(), id.0))?;
    if is_stored {
        return Ok(valid);
    }
    if valid.len() >= DESTINATION_KEYS_MAX {
        let next_retires_at = valid.iter().filter_map(|key| key.retires_at).min();
        return Err(StoreError::TooManyKeys { next_retires_at }.into());
    }
    db.prepare_cached("DELETE FROM webhook_sealed_values WHERE destination_id = ?1 AND retires_at <= ?2")?
        .execute((id.0, now.as_micros()))?;
    db.prepare_cached(
        "UPDATE webhook_sealed_values SET retires_at = ?2
         WHERE destination_id = ?1 AND kind <> 'headers' AND retires_at IS NULL",
    )?
    .execute((id.0, now.after(grace.duration()).as_micros()))?;
    insert(db, now, id, key.kind.as_str(), &key.sealed, Some(actor.as_str()))?;
    change_profile(db, now, id)?;
    record_audit(db, now, id, DestinationAction::RotateKey, actor, None, None)?;
    Ok(read_valid(db, now, id)?)
}

fn read_headers(db: &Connection, id: DestinationId) -> rusqlite::Result<Option<SealedValue>> {
    db.prepare_cached(
        "SELECT id, sealed FROM webhook_sealed_values WHERE destination_id = ?1 AND kind = 'headers'",
    )?
    .query_row([id.0], |row| sealed_value(row, 0, 1))
    .optional()
}

pub(super) fn headers(db: &Connection, id: DestinationId) -> Result<Option<SealedValue>, CallError> {
    version(db, id)?;
    Ok(read_headers(db, id)?)
}

/// Replaces the custom headers, if they are still those with the id `expected`.
pub(super) fn set_headers(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    expected: Option<SealedId>,
    headers: Option<&SealedValue>,
) -> Result<(), CallError> {
    version(db, id)?;
    if read_headers(db, id)?.map(|headers| headers.id) != expected {
        return Err(StoreError::Busy { reason: "another request has changed the headers" }.into());
    }
    db.prepare_cached("DELETE FROM webhook_sealed_values WHERE destination_id = ?1 AND kind = 'headers'")?
        .execute([id.0])?;
    if let Some(headers) = headers {
        insert(db, now, id, HEADERS, headers, None)?;
    }
    Ok(change_profile(db, now, id)?)
}

/// Returns the profiles of destinations, without those that have none.
pub(super) fn profiles(
    db: &Connection,
    now: Timestamp,
    ids: &[DestinationId],
) -> Result<Vec<DestinationProfile>, CallError> {
    let mut find = db.prepare_cached(
        "SELECT profile_version, app_id FROM webhook_destinations WHERE id = ?1 AND profile_version > 0",
    )?;
    let mut profiles = Vec::new();
    for id in ids {
        let found = find.query_row([id.0], |row| Ok((row.get(0)?, row::application(row, 1)?))).optional()?;
        if let Some((version, app)) = found {
            profiles.push(DestinationProfile {
                destination: *id,
                app,
                version,
                keys: read_valid(db, now, *id)?,
                headers: read_headers(db, *id)?,
            });
        }
    }
    Ok(profiles)
}

/// Sealed values by id. Index: webhook_sealed_values_id.
pub(super) const SEALED_VALUES: &str =
    "SELECT id, sealed FROM webhook_sealed_values WHERE id > ?1 ORDER BY id LIMIT ?2";

pub(super) fn sealed_values(
    db: &Connection,
    after: Option<SealedId>,
    limit: usize,
) -> rusqlite::Result<Vec<SealedValue>> {
    let after = after.map_or_else(Vec::new, |id| id.as_uuid().as_bytes().to_vec());
    let mut listed = db.prepare_cached(SEALED_VALUES)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    listed.query_map((after, limit), |row| sealed_value(row, 0, 1))?.collect()
}

/// Replaces the bytes of sealed values that have not changed meanwhile. Returns how many.
pub(super) fn reseal(db: &Connection, values: &[Reseal]) -> rusqlite::Result<usize> {
    let mut replace =
        db.prepare_cached("UPDATE webhook_sealed_values SET sealed = ?3 WHERE id = ?1 AND sealed = ?2")?;
    let mut replaced = 0;
    for Reseal { old, new } in values {
        replaced += replace.execute((old.id.as_uuid().into_bytes(), &old.bytes, &new.bytes))?;
    }
    Ok(replaced)
}

/// Retired keys. Index: webhook_sealed_values_retiring.
pub(super) const REMOVE_RETIRED: &str = "DELETE FROM webhook_sealed_values WHERE retires_at <= ?1";

/// Removes the keys that have retired.
pub(crate) fn remove_retired(db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached(REMOVE_RETIRED)?.execute([now.as_micros()])?;
    Ok(())
}
