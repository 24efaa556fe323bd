//! The oldest-pending watermark: no pending event has a smaller key. Listings, the overview and sweeps read from it on,
//! above the dead index entries of delivered events.
//!
//! The watermark is raised in two steps, a few seconds apart. The first step reads the smallest pending key as a
//! candidate. Once every transaction that was alive then has ended, none of them can add a smaller key, and the second
//! step raises the watermark. A requeue returns an old key to the queue and lowers the watermark in its own
//! transaction, under a shared lock. While any transaction holds that lock, the watermark is not raised.
//!
//! No event depends on this reasoning: every sweep reads the queue below the watermark, and lowers the watermark if it
//! finds a pending event there.

mod check;

use futures_util::future::join;
use posthaste_store::StoreError;
use tokio_postgres::types::Type;

use crate::StoreState;
use crate::session::{BEGIN, Session, Sql};

pub(crate) use check::{StepSize, check};

/// A value to which the watermark can be raised once every transaction below `xmax` has ended.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WatermarkCandidate {
    /// The watermark when the candidate was read.
    watermark: i64,
    /// The smallest pending key then.
    smallest_key: i64,
    xmax: i64,
}

/// Reads the last key that was drawn.
static LAST_KEY: Sql = Sql { text: "SELECT last_value FROM app.webhook_event_key", types: &[] };

/// Reads the watermark, the smallest pending key and the snapshot's xmax. Without pending events, the key is null.
static READ_CANDIDATE: Sql = Sql {
    text: "
SELECT w.min_key,
       (SELECT q.id FROM app.webhook_queue q WHERE q.id >= w.min_key ORDER BY q.id LIMIT 1),
       pg_snapshot_xmax(pg_current_snapshot())::text::bigint
FROM app.webhook_pending_watermark w",
    types: &[],
};

/// Takes the advisory lock that keeps the watermark from being raised, until the transaction ends. Requeues hold it.
pub(crate) static LOCK_WATERMARK_SHARED: Sql =
    Sql { text: "SELECT pg_advisory_xact_lock_shared(7526, 2)", types: &[] };
/// Takes the watermark's advisory lock exclusively, or returns false if another transaction holds it.
static TRY_LOCK_WATERMARK: Sql = Sql { text: "SELECT pg_try_advisory_xact_lock(7526, 2)", types: &[] };

/// Raises the watermark from $1 to $2 once every transaction below $3 has ended. Changes nothing if another transaction
/// has moved the watermark from $1: that transaction may have requeued an event with a key below $2.
static RAISE_WATERMARK: Sql = Sql {
    text: "
UPDATE app.webhook_pending_watermark w
SET min_key = $2
WHERE w.min_key = $1 AND $2 > $1
      AND pg_snapshot_xmin(pg_current_snapshot())::text::bigint >= $3
      AND NOT EXISTS (SELECT FROM app.webhook_queue q WHERE q.id >= $1 AND q.id < $2)",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Raises the watermark to a candidate if that is safe by now. A separate statement takes the lock, so that the
/// snapshot of the update includes every commit made under the shared lock.
async fn raise_to(session: &Session, candidate: WatermarkCandidate) -> Result<(), tokio_postgres::Error> {
    let WatermarkCandidate { watermark, smallest_key, xmax } = candidate;
    session.begin(&BEGIN).await?;
    let rows = session.query(&TRY_LOCK_WATERMARK, &[]).await?;
    if rows.first().expect("the statement returns one row").try_get(0)? {
        session.query(&RAISE_WATERMARK, &[&watermark, &smallest_key, &xmax]).await?;
    }
    session.client().batch_execute("COMMIT").await
}

/// Reads the next candidate. The last key is read by a statement of its own, before the snapshot: a transaction that
/// drew a key up to it is then below the snapshot's xmax.
async fn read_candidate(session: &Session) -> Result<Option<WatermarkCandidate>, tokio_postgres::Error> {
    let (last_key, candidate) = (session.prepare(&LAST_KEY).await?, session.prepare(&READ_CANDIDATE).await?);
    let rows = session.transaction(async {
        let (last_key, candidate) = join(session.send(&last_key, &[]), session.send(&candidate, &[])).await;
        Ok((last_key?, candidate?))
    });
    let (last_key, candidate) = rows.await?;
    let (Some(last_key), Some(candidate)) = (last_key.first(), candidate.first()) else { return Ok(None) };
    let smallest_key = match candidate.try_get(1)? {
        Some(pending) => pending,
        None => last_key.try_get(0)?,
    };
    let (watermark, xmax) = (candidate.try_get(0)?, candidate.try_get(2)?);
    Ok(Some(WatermarkCandidate { watermark, smallest_key, xmax }))
}

/// Raises the watermark to the candidate of the last round, and returns the candidate for the next round.
pub(crate) async fn raise(
    store: &StoreState,
    candidate: Option<WatermarkCandidate>,
) -> Result<Option<WatermarkCandidate>, StoreError> {
    store
        .sessions
        .operate
        .with(async |session| {
            if let Some(candidate) = candidate {
                raise_to(session, candidate).await?;
            }
            read_candidate(session).await
        })
        .await
}
