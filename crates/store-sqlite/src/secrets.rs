//! The instance's signing secrets.

use posthaste_domain::Timestamp;
use posthaste_domain::signature::Secret;
use posthaste_store::StoreError;
use rusqlite::Connection;

use crate::fault::Fault;

/// There is a handful of them at most; no index is needed.
const VALID: &str = "
    SELECT secret FROM webhook_secrets
    WHERE retired_at IS NULL OR retired_at > ?1
    ORDER BY created_at DESC, id DESC";

pub(crate) fn valid(db: &Connection, now: Timestamp, first: &Secret) -> Result<Vec<Secret>, Fault> {
    db.prepare_cached(
        "INSERT INTO webhook_secrets (secret, created_at)
         SELECT ?1, ?2 WHERE NOT EXISTS (SELECT 1 FROM webhook_secrets)",
    )?
    .execute((first.reveal().as_str(), now.as_micros()))?;
    let mut statement = db.prepare_cached(VALID)?;
    let texts = statement.query_map([now.as_micros()], |row| row.get::<_, String>(0))?;
    texts.map(|text| parse(&text?)).collect()
}

fn parse(text: &str) -> Result<Secret, Fault> {
    let unreadable = |error| StoreError::Rejected { reason: format!("a row of webhook_secrets: {error}") };
    Secret::parse(text).map_err(|error| unreadable(error).into())
}
