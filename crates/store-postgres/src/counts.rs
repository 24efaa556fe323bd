//! Numbers of events by state. Every change appends a row with its differences; the numbers are the sums of all rows.

use posthaste_store::StoreError;

use crate::StoreState;
use crate::session::Sql;

/// Replaces the rows of webhook_counts by one row with their sums. Skips rows that another process is compacting, so
/// that neither waits for the other.
static COMPACT_COUNTS: Sql = Sql {
    text: "
WITH parts AS (
    DELETE FROM app.webhook_counts
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM app.webhook_counts FOR UPDATE SKIP LOCKED))
    RETURNING *
)
INSERT INTO app.webhook_counts (pending, retrying, delivered, failed, cancelled)
SELECT sum(pending), sum(retrying), sum(delivered), sum(failed), sum(cancelled) FROM parts HAVING count(*) > 0",
    types: &[],
};

/// Replaces the rows of differences by one row with their sums, so that reading the counts stays cheap.
pub(crate) async fn compact(store: &StoreState) -> Result<(), StoreError> {
    store.sessions.operate.with(async |session| session.query(&COMPACT_COUNTS, &[]).await).await.map(drop)
}
