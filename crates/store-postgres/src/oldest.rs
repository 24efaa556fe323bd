//! Below which key nothing is pending.
//!
//! Raised in two steps, a sweep apart: the smallest pending key is a candidate, and once every transaction that was
//! alive then has ended, none of them can bring a smaller one. A requeue brings an old key back, and lowers the mark
//! in its own transaction.

use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::Shared;
use crate::session::Sql;

/// The key that may be the smallest, and the transaction before which everyone must have ended for it to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candidate {
    mark: i64,
    key: i64,
    everyone_before: i64,
}

/// Where nothing is pending, the next number that will be drawn is above the last.
static FIND: Sql = Sql {
    text: "
SELECT o.key,
       coalesce(
           (SELECT q.id FROM app.webhook_queue q WHERE q.id >= o.key ORDER BY q.id LIMIT 1),
           (SELECT s.last_value FROM app.webhook_turn s)
       ),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint
FROM app.webhook_oldest o",
    types: &[],
};

/// Only if the mark is where it was: whoever moved it knows of a row that is not visible here.
static RAISE: Sql = Sql {
    text: "
UPDATE app.webhook_oldest o
SET key = $2
WHERE o.key = $1 AND $2 > $1
      AND pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= $3
      AND NOT EXISTS (SELECT FROM app.webhook_queue q WHERE q.id >= $1 AND q.id < $2)",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Confirms the candidate of the last round, and finds the one for the next.
pub(crate) async fn raise(
    store: &Shared,
    candidate: Option<Candidate>,
) -> Result<Option<Candidate>, StoreError> {
    store
        .sessions
        .operate
        .with(async |session| {
            if let Some(Candidate { mark, key, everyone_before }) = candidate {
                session.transact(&RAISE, &[&mark, &key, &everyone_before]).await?;
            }
            let rows = session.transact(&FIND, &[]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let (mark, key, everyone_before) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(Some(Candidate { mark, key, everyone_before }))
        })
        .await
}
