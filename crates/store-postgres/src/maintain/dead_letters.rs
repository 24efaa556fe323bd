//! Retention of dead letters: deletes failed events that have not changed for a long time.

use tokio_postgres::types::Type;

use super::RetentionStep;
use crate::convert::PgTimestamp;
use crate::session::{Session, Sql};

/// Deletes up to $3 failed events whose last change is more than $2 ago and not before $1, with all their rows. The
/// condition is repeated in the DELETE, because an operator may change an event meanwhile. Uses indexes
/// webhook_failures_updated_at, webhook_failures_id, webhook_events_id, and webhook_attempts_event in every partition.
static DELETE_DEAD_LETTERS: Sql = Sql {
    text: "
WITH cutoff AS MATERIALIZED (
    SELECT app.webhook_now() - $2 * interval '1 microsecond' AS at
),
old AS MATERIALIZED (
    SELECT f.id, f.updated_at
    FROM app.webhook_failures f
    WHERE f.updated_at >= timestamptz 'epoch' + $1 * interval '1 microsecond'
          AND f.updated_at <= (SELECT at FROM cutoff)
    ORDER BY f.updated_at, f.id
    LIMIT $3
),
failures AS (
    DELETE FROM app.webhook_failures f
    USING old o
    WHERE f.id = o.id AND f.updated_at <= (SELECT at FROM cutoff)
    RETURNING f.id, f.failure_kind
),
events AS (
    DELETE FROM app.webhook_events e USING failures f WHERE e.id = f.id
),
attempts AS (
    DELETE FROM app.webhook_attempts a USING failures f WHERE a.event_key = f.id
),
audit AS (
    DELETE FROM app.webhook_audit a USING failures f WHERE a.event_key = f.id
),
counts AS (
    INSERT INTO app.webhook_counts (failed, cancelled)
    SELECT -count(*), -count(*) FILTER (WHERE failure_kind = 'cancelled') FROM failures HAVING count(*) > 0
)
SELECT (SELECT count(*) FROM failures), (SELECT count(*) FROM old), (SELECT max(updated_at) FROM old)",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// Runs one step of a pass over the failed events, which are older than `keep_for` microseconds.
pub(super) async fn delete_old(
    session: &Session,
    cursor: i64,
    keep_for: i64,
    rows_max: i64,
) -> Result<RetentionStep, tokio_postgres::Error> {
    let rows = session.transact(&DELETE_DEAD_LETTERS, &[&cursor, &keep_for, &rows_max]).await?;
    let row = rows.first().expect("the statement returns one row");
    let (removed, found): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let last_change = row.try_get::<_, Option<PgTimestamp>>(2)?.map(|PgTimestamp(at)| at.as_micros());
    let has_more = found >= rows_max;
    let next_cursor = last_change.filter(|_| has_more).unwrap_or(0);
    Ok(RetentionStep { removed: usize::try_from(removed).unwrap_or(0), next_cursor, has_more })
}
