//! Answers that are kept with the changes that they answer.

use async_trait::async_trait;
use bytes::Bytes;
use posthaste_store::{Answer, AnswerKey, AnswerSlot, Answers, KeptAnswer, StoreError};
use tokio_postgres::types::Type;

use super::Call;
use crate::PostgresStore;
use crate::convert::micros;
use crate::session::{Session, SessionPool, Sql};

/// Serialises the calls under one key until the transaction ends, so that each sees the answer of the one before it.
static LOCK_KEY: Sql = Sql {
    text: "SELECT true FROM pg_advisory_xact_lock(7527, hashtext(encode($1, 'hex')))",
    types: &[Type::BYTEA],
};

/// Reads the answer under a key. Uses index webhook_answers_key.
static FIND_ANSWER: Sql = Sql {
    text: "
SELECT a.status, a.body, a.fingerprint
FROM app.webhook_answers a
WHERE a.key = $1 AND a.expires_at > app.webhook_now()",
    types: &[Type::BYTEA],
};

/// Keeps an answer for $5 microseconds, in place of an expired one.
static KEEP_ANSWER: Sql = Sql {
    text: "
INSERT INTO app.webhook_answers (key, fingerprint, status, body, expires_at)
VALUES ($1, $2, $3, $4, app.webhook_now() + $5 * interval '1 microsecond')
ON CONFLICT (key) DO UPDATE
SET fingerprint = excluded.fingerprint, status = excluded.status, body = excluded.body, expires_at = excluded.expires_at",
    types: &[Type::BYTEA, Type::BYTEA, Type::INT2, Type::BYTEA, Type::INT8],
};

/// Deletes up to $1 expired answers. Uses index webhook_answers_expires_at.
pub(crate) static DELETE_EXPIRED_ANSWERS: Sql = Sql {
    text: "
DELETE FROM app.webhook_answers a
WHERE a.key = ANY (ARRAY(
    SELECT o.key FROM app.webhook_answers o WHERE o.expires_at <= app.webhook_now() ORDER BY o.expires_at LIMIT $1
))
RETURNING 1",
    types: &[Type::INT8],
};

/// Runs a change in a transaction and keeps its answer. Changes nothing if an answer is kept already, or if the change fails.
pub(super) async fn change_answered<T, W>(
    pool: &SessionPool,
    answer: Option<&AnswerSlot<T>>,
    work: W,
) -> Result<T, StoreError>
where
    W: AsyncFnOnce(&Session) -> Call<T>,
{
    super::change(pool, async |session| {
        if let Some(slot) = answer {
            session.query(&LOCK_KEY, &[&&slot.key.0[..]]).await?;
            if !session.query(&FIND_ANSWER, &[&&slot.key.0[..]]).await?.is_empty() {
                return Err(StoreError::AnswerKept.into());
            }
        }
        let value = work(session).await?;
        if let Some(slot) = answer {
            let kept = slot.render(&value);
            let status = i16::try_from(kept.answer.status).unwrap_or(i16::MAX);
            let (key, fingerprint, body) = (&slot.key.0[..], &kept.fingerprint[..], &kept.answer.body[..]);
            session
                .query(&KEEP_ANSWER, &[&key, &fingerprint, &status, &body, &micros(slot.keep_for)])
                .await?;
        }
        Ok(value)
    })
    .await
}

#[async_trait]
impl Answers for PostgresStore {
    async fn find(&self, key: &AnswerKey) -> Result<Option<KeptAnswer>, StoreError> {
        let key = &key.0[..];
        let found = self.shared.sessions.operate.with(async |session| {
            let rows = session.query(&FIND_ANSWER, &[&key]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let fingerprint = <[u8; 32]>::try_from(row.try_get::<_, &[u8]>(2)?).unwrap_or_default();
            let answer = Answer {
                status: u16::try_from(row.try_get::<_, i16>(0)?).unwrap_or_default(),
                body: Bytes::copy_from_slice(row.try_get(1)?),
            };
            Ok(Some(KeptAnswer { answer, fingerprint }))
        });
        found.await
    }

    async fn keep(&self, slot: &AnswerSlot<()>) -> Result<(), StoreError> {
        change_answered(&self.shared.sessions.operate, Some(slot), async |_| Ok(())).await
    }
}
