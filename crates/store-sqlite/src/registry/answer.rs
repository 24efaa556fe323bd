//! Answers that are kept with the changes that they answer.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_domain::Timestamp;
use posthaste_store::{Answer, AnswerKey, AnswerSlot, Answers, KeptAnswer, StoreError};
use rusqlite::{Connection, OptionalExtension as _};

use crate::SqliteStore;
use crate::command::CommandKind;
use crate::error::CallError;

/// Runs a change and keeps its answer. Changes nothing if the answer is kept already.
pub(super) fn change<T>(
    db: &Connection,
    now: Timestamp,
    answer: Option<&AnswerSlot<T>>,
    run: impl FnOnce() -> Result<T, CallError>,
) -> Result<T, CallError> {
    if let Some(slot) = answer
        && find(db, now, &slot.key)?.is_some()
    {
        return Err(StoreError::AnswerKept.into());
    }
    let value = run()?;
    if let Some(slot) = answer {
        keep(db, now.after(slot.keep_for), &slot.key, &slot.render(&value))?;
    }
    Ok(value)
}

/// Stores an answer, in place of an expired one that maintenance has not removed yet.
fn keep(
    db: &Connection,
    expires_at: Timestamp,
    key: &AnswerKey,
    KeptAnswer { answer, fingerprint }: &KeptAnswer,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "INSERT OR REPLACE INTO webhook_answers (key, fingerprint, status, expires_at, body)
         VALUES (?1, ?2, ?3, ?4, ?5)",
    )?
    .execute((key.0, fingerprint, answer.status, expires_at.as_micros(), answer.body.as_ref()))?;
    Ok(())
}

fn find(db: &Connection, now: Timestamp, key: &AnswerKey) -> rusqlite::Result<Option<KeptAnswer>> {
    db.prepare_cached(
        "SELECT status, body, fingerprint FROM webhook_answers WHERE key = ?1 AND expires_at > ?2",
    )?
    .query_row((key.0, now.as_micros()), |row| {
        let body = Bytes::copy_from_slice(row.get_ref(1)?.as_blob()?);
        Ok(KeptAnswer { answer: Answer { status: row.get(0)?, body }, fingerprint: row.get(2)? })
    })
    .optional()
}

/// Expired answers. Index: webhook_answers_expiry.
pub(super) const REMOVE_EXPIRED: &str = "
    DELETE FROM webhook_answers
    WHERE key IN (SELECT key FROM webhook_answers WHERE expires_at <= ?1 ORDER BY expires_at LIMIT ?2)";

/// Removes up to `rows_max` expired answers. Returns whether there may be more.
pub(crate) fn remove_expired(db: &Connection, now: Timestamp, rows_max: i64) -> rusqlite::Result<bool> {
    let removed = db.prepare_cached(REMOVE_EXPIRED)?.execute((now.as_micros(), rows_max))?;
    Ok(i64::try_from(removed).is_ok_and(|removed| removed >= rows_max))
}

#[async_trait]
impl Answers for SqliteStore {
    async fn find(&self, key: &AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        let (clock, key) = (Arc::clone(&self.shared.clock), *key);
        self.read(move |db| Ok(find(db, clock.now(), &key)?)).await
    }

    async fn keep(&self, slot: &AnswerSlot<()>) -> Result<(), StoreError> {
        let slot = slot.clone();
        self.write(CommandKind::Other, move |context| change(context.db, context.now, Some(&slot), || Ok(())))
            .await
    }
}
