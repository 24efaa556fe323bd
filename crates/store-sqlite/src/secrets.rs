//! The instance's signing secrets.

use posthaste_domain::Timestamp;
use posthaste_domain::signature::Secret;
use posthaste_store::StoreError;
use rusqlite::Connection;

use crate::error::CallError;

/// The secrets that are not retired, newest first. Scans the table, which has a handful of rows at most.
const VALID: &str = "
    SELECT secret FROM webhook_secrets
    WHERE retired_at IS NULL OR retired_at > ?1
    ORDER BY created_at DESC, id DESC";

/// Returns the valid secrets, newest first. If there has never been a secret, it stores `first` and returns it.
pub(crate) fn valid_secrets(
    db: &Connection,
    now: Timestamp,
    first: &Secret,
) -> Result<Vec<Secret>, CallError> {
    db.prepare_cached(
        "INSERT INTO webhook_secrets (secret, created_at)
         SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM webhook_secrets)",
    )?
    .execute((first.reveal().as_str(), now.as_micros()))?;
    let mut statement = db.prepare_cached(VALID)?;
    let texts = statement.query_map([now.as_micros()], |row| row.get::<_, String>(0))?;
    texts.map(|text| parse(&text?)).collect()
}

fn parse(text: &str) -> Result<Secret, CallError> {
    let unreadable = |error| StoreError::Rejected {
        reason: format!(
            "webhook_secrets contains a secret that is not valid: {error}; correct or delete that row"
        ),
    };
    Secret::parse(text).map_err(|error| unreadable(error).into())
}
