//! Below which key nothing is pending.
//!
//! Raised in two steps, a few seconds apart: the smallest pending key is a candidate, and once every transaction that was
//! alive then has ended, none of them can bring a smaller one. A requeue brings an old key back, and lowers the mark
//! in its own transaction; while one is under way, which a shared lock tells, the mark is not raised.

use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::Shared;
use crate::session::{BEGIN, Session, Sql};

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

/// Whoever requeues holds this lock, shared, to the end of its transaction.
pub(crate) static KEEP_LOW: Sql = Sql { text: "SELECT pg_advisory_xact_lock_shared(7526, 2)", types: &[] };
static TRY_RAISE: Sql = Sql { text: "SELECT pg_try_advisory_xact_lock(7526, 2)", types: &[] };

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

/// The lock first, in a statement of its own: the next one sees what was committed by whoever held it.
async fn confirm(session: &Session, candidate: Candidate) -> Result<(), tokio_postgres::Error> {
    let Candidate { mark, key, everyone_before } = candidate;
    session.client().batch_execute(BEGIN).await?;
    let rows = session.query(&TRY_RAISE, &[]).await?;
    if rows.first().expect("the statement answers with one row").try_get(0)? {
        session.query(&RAISE, &[&mark, &key, &everyone_before]).await?;
    }
    session.client().batch_execute("COMMIT").await
}

/// Confirms the candidate of the last round, and finds the one for the next.
pub(crate) async fn raise(
    store: &Shared,
    candidate: Option<Candidate>,
) -> Result<Option<Candidate>, StoreError> {
    store
        .sessions
        .operate
        .with(async |session| {
            if let Some(candidate) = candidate {
                confirm(session, candidate).await?;
            }
            let rows = session.transact(&FIND, &[]).await?;
            let Some(row) = rows.first() else { return Ok(None) };
            let (mark, key, everyone_before) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
            Ok(Some(Candidate { mark, key, everyone_before }))
        })
        .await
}
