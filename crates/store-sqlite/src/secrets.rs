//! The instance's signing secrets. All statements scan the table, which has a handful of rows.

use posthaste_domain::Timestamp;
use posthaste_domain::signature::Secret;
use posthaste_store::{GracePeriod, StoreError, StoredSecret, VALID_SECRETS_MAX};
use rusqlite::{Connection, Row};

use crate::error::CallError;

/// The secrets that have not retired, newest first.
const VALID: &str = "
    SELECT secret, created_at, created_by, retires_at FROM webhook_secrets
    WHERE retires_at IS NULL OR retires_at > ?1
    ORDER BY id DESC";

/// A rotation that the writer thread can run, and run again after a rollback.
pub(crate) struct OwnedRotation {
    pub(crate) secret: Secret,
    pub(crate) grace: GracePeriod,
    pub(crate) actor: String,
}

/// Stores `first` if the table is empty.
pub(crate) fn add_first(db: &Connection, now: Timestamp, first: &Secret) -> Result<(), CallError> {
    db.prepare_cached(
        "INSERT INTO webhook_secrets (secret, created_at)
         SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM webhook_secrets)",
    )?
    .execute((first.reveal().as_str(), now.as_micros()))?;
    Ok(())
}

/// Returns the valid secrets, newest first.
pub(crate) fn valid_secrets(db: &Connection, now: Timestamp) -> Result<Vec<StoredSecret>, CallError> {
    let mut statement = db.prepare_cached(VALID)?;
    let mut rows = statement.query([now.as_micros()])?;
    let mut secrets = Vec::new();
    while let Some(row) = rows.next()? {
        secrets.push(parse(row)?);
    }
    Ok(secrets)
}

/// Adds a secret and sets when the newest one before it retires. Changes nothing if the secret is stored already.
pub(crate) fn rotate(
    db: &Connection,
    now: Timestamp,
    rotation: &OwnedRotation,
) -> Result<Vec<StoredSecret>, CallError> {
    let valid = valid_secrets(db, now)?;
    if valid.iter().any(|stored| stored.secret == rotation.secret) {
        return Ok(valid);
    }
    if valid.len() >= VALID_SECRETS_MAX {
        let next_retires_at = valid.iter().filter_map(|stored| stored.retires_at).min();
        return Err(StoreError::TooManySecrets { next_retires_at }.into());
    }
    remove_retired(db, now)?;
    db.prepare_cached("UPDATE webhook_secrets SET retires_at = ?1 WHERE retires_at IS NULL")?
        .execute([now.after(rotation.grace.duration()).as_micros()])?;
    db.prepare_cached("INSERT INTO webhook_secrets (secret, created_at, created_by) VALUES (?1, ?2, ?3)")?
        .execute((rotation.secret.reveal().as_str(), now.as_micros(), &rotation.actor))?;
    valid_secrets(db, now)
}

/// Removes the secrets that have retired.
pub(crate) fn remove_retired(db: &Connection, now: Timestamp) -> rusqlite::Result<()> {
    db.prepare_cached("DELETE FROM webhook_secrets WHERE retires_at <= ?1")?.execute([now.as_micros()])?;
    Ok(())
}

fn parse(row: &Row<'_>) -> Result<StoredSecret, CallError> {
    let unreadable = |error| StoreError::Rejected {
        reason: format!(
            "webhook_secrets contains a secret that is not valid: {error}; correct or delete that row"
        ),
    };
    let secret = Secret::parse(row.get_ref(0)?.as_str().map_err(rusqlite::Error::from)?);
    Ok(StoredSecret {
        secret: secret.map_err(unreadable)?,
        created_at: Timestamp::from_micros(row.get(1)?),
        created_by: row.get(2)?,
        retires_at: row.get::<_, Option<i64>>(3)?.map(Timestamp::from_micros),
    })
}
