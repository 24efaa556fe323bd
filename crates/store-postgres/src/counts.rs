//! The numbers of events by state. Every change appends how it changed them; their sums are the numbers.

use posthaste_store::StoreError;

use crate::Shared;
use crate::session::Sql;

/// Many small rows become one. Only rows that nobody else is adding up, so that nobody waits.
static ADD_UP: Sql = Sql {
    text: "
WITH parts AS (
    DELETE FROM app.webhook_counts
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM app.webhook_counts FOR UPDATE SKIP LOCKED))
    RETURNING *
)
INSERT INTO app.webhook_counts (pending, retrying, delivered, failed)
SELECT sum(pending), sum(retrying), sum(delivered), sum(failed) FROM parts HAVING count(*) > 0",
    types: &[],
};

pub(crate) async fn add_up(store: &Shared) -> Result<(), StoreError> {
    store.sessions.operate.with(async |session| session.query(&ADD_UP, &[]).await).await.map(drop)
}
