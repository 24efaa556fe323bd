//! Forgetting what retention no longer keeps, a small step at a time.

mod partitions;

use posthaste_store::{Maintained, Retention, StoreError};
use tokio_postgres::types::Type;

use crate::Shared;
use crate::moment::micros;
use crate::session::{Session, Sql};

pub(crate) use partitions::ahead;

/// Index webhook_idempotency_forget_at.
static FORGET_KEYS: Sql = Sql {
    text: "
DELETE FROM app.webhook_idempotency i
WHERE i.key = ANY (ARRAY(
    SELECT o.key
    FROM app.webhook_idempotency o
    WHERE o.forget_at <= app.webhook_now()
    ORDER BY o.forget_at
    LIMIT $1
))
RETURNING 1",
    types: &[Type::INT8],
};

/// Walks the endings by key, from where the last step stopped: failed ones stay, delivered ones go when they are old.
/// An event that was accepted after the horizon cannot have been delivered before it, so the walk ends there.
static FORGET_DELIVERED: Sql = Sql {
    text: "
WITH horizon AS (
    SELECT app.webhook_now() - $2 * interval '1 microsecond' AS at
),
walked AS MATERIALIZED (
    SELECT x.id, x.failure_kind IS NULL AND x.updated_at <= h.at AS old, e.created_at > h.at AS young
    FROM horizon h, app.webhook_endings x
    JOIN app.webhook_events e ON e.id = x.id
    WHERE x.id > $1
    ORDER BY x.id
    LIMIT $3
),
endings AS (
    DELETE FROM app.webhook_endings x USING walked w WHERE x.id = w.id AND w.old RETURNING x.id
),
events AS (
    DELETE FROM app.webhook_events e USING endings x WHERE e.id = x.id RETURNING e.id, e.message_id
),
messages AS (
    DELETE FROM app.webhook_messages m USING events e WHERE m.id = e.message_id
),
audit AS (
    DELETE FROM app.webhook_audit a USING events e WHERE a.event_key = e.id
),
counted AS (
    INSERT INTO app.webhook_counts (delivered) SELECT -count(*) FROM endings HAVING count(*) > 0
)
SELECT (SELECT count(*) FROM endings), (SELECT count(*) FROM walked), (SELECT max(id) FROM walked),
       coalesce((SELECT bool_or(young) FROM walked), false)",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// The oldest rows of the log, by webhook_notices_id.
static FORGET_NOTICES: Sql = Sql {
    text: "
DELETE FROM app.webhook_notices n
USING (SELECT o.id FROM app.webhook_notices o ORDER BY o.id LIMIT $2) o
WHERE n.id = o.id AND n.at <= app.webhook_now() - $1 * interval '1 microsecond'
RETURNING 1",
    types: &[Type::INT8, Type::INT8],
};

pub(crate) async fn maintain(store: &Shared, retention: &Retention) -> Result<Maintained, StoreError> {
    let rows_max = i64::try_from(retention.rows_max.max(1)).unwrap_or(i64::MAX);
    let mut walked_to = store.walked_to.lock().await;
    let maintained = store.sessions.dispatch.with(async |session| {
        partitions::ahead(session).await?;
        let keys = session.transact(&FORGET_KEYS, &[&rows_max]).await?.len();
        let mut maintained = Maintained { removed: 0, more: keys >= retention.rows_max.max(1) };
        let Some(keep) = retention.keep else { return Ok(maintained) };
        let keep = micros(keep);
        let step = forget_delivered(session, *walked_to, keep, rows_max).await?;
        let notices = session.transact(&FORGET_NOTICES, &[&keep, &rows_max]).await?.len();
        let attempts = partitions::drop_old(session, keep, rows_max).await?;
        *walked_to = step.walked_to;
        maintained.removed = step.removed;
        maintained.more |= step.more || notices >= retention.rows_max.max(1) || attempts;
        Ok(maintained)
    });
    maintained.await
}

struct Step {
    removed: usize,
    walked_to: i64,
    more: bool,
}

async fn forget_delivered(
    session: &Session,
    from: i64,
    keep: i64,
    rows_max: i64,
) -> Result<Step, tokio_postgres::Error> {
    let rows = session.transact(&FORGET_DELIVERED, &[&from, &keep, &rows_max]).await?;
    let row = rows.first().expect("the statement answers with one row");
    let (removed, walked): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let (last, young): (Option<i64>, bool) = (row.try_get(2)?, row.try_get(3)?);
    let more = walked >= rows_max && !young;
    // At the end, the next round begins where the oldest are.
    let walked_to = if more { last.unwrap_or(0) } else { 0 };
    Ok(Step { removed: usize::try_from(removed).unwrap_or(0), walked_to, more })
}
