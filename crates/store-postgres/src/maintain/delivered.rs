//! Retention of delivered events: deletes events that were delivered long ago.
//!
//! A delivered event has no row but its own and its attempts. So the pass reads all old events in key order and skips those
//! that are pending or failed. It deletes an event before the partition of its attempts is dropped, because the attempt
//! that delivered the event says when.

use tokio_postgres::types::Type;

use super::RetentionStep;
use crate::session::{Session, Sql};

/// Examines up to $3 events after the key $1, in key order, and deletes those that were delivered more than $2 ago, with
/// their audit logs. An event accepted after the cutoff cannot have been delivered before it, so the pass ends at the first
/// such event. A delivered event does not change, so the statement needs no lock. Uses indexes webhook_events_id,
/// webhook_queue_id, webhook_failures_id, and webhook_attempts_event in every partition.
static DELETE_DELIVERED: Sql = Sql {
    text: "
WITH cutoff AS MATERIALIZED (
    SELECT app.webhook_now() - $2 * interval '1 microsecond' AS at
),
examined AS MATERIALIZED (
    SELECT e.id, e.created_at > h.at AS is_recent,
           e.created_at <= h.at AND q.id IS NULL AND f.id IS NULL AND coalesce(a.recorded_at <= h.at, true) AS is_old
    FROM cutoff h
    CROSS JOIN (SELECT e.id, e.created_at FROM app.webhook_events e WHERE e.id > $1 ORDER BY e.id LIMIT $3) e
    LEFT JOIN app.webhook_queue q ON q.id = e.id
    LEFT JOIN app.webhook_failures f ON f.id = e.id
    LEFT JOIN LATERAL (
        SELECT a.recorded_at
        FROM app.webhook_attempts a
        WHERE q.id IS NULL AND f.id IS NULL AND a.event_key = e.id AND a.delivery_claims IS NOT NULL
        LIMIT 1
    ) a ON true
),
events AS (
    DELETE FROM app.webhook_events e USING examined x WHERE e.id = x.id AND x.is_old RETURNING e.id
),
audit AS (
    DELETE FROM app.webhook_audit a USING events e WHERE a.event_key = e.id
),
counts AS (
    INSERT INTO app.webhook_counts (delivered) SELECT -count(*) FROM events HAVING count(*) > 0
)
SELECT (SELECT count(*) FROM events), (SELECT count(*) FROM examined), (SELECT max(id) FROM examined),
       coalesce((SELECT bool_or(is_recent) FROM examined), false),
       (extract(epoch FROM (SELECT at FROM cutoff)) * 1000000)::bigint",
    types: &[Type::INT8, Type::INT8, Type::INT8],
};

/// A pass over the delivered events.
#[derive(Default)]
pub(super) struct DeliveredPass {
    /// Key of the last event that the pass has examined; zero between passes.
    cursor: i64,
    /// Whether the pass has ended and rests.
    has_ended: bool,
    /// The cutoff with which the pass began, in microseconds since the epoch.
    cutoff: i64,
    /// The cutoff of the last complete pass: no event is left that was delivered before it.
    completed_to: Option<i64>,
}

impl DeliveredPass {
    /// The time, in microseconds since the epoch, before which no event is left that was delivered.
    pub(super) fn completed_to(&self) -> Option<i64> {
        self.completed_to
    }

    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Lets the next step begin a new pass.
    pub(super) fn start_again(&mut self) {
        self.has_ended = false;
    }

    /// Runs one step: examines up to `rows_max` events, unless the pass has ended.
    pub(super) async fn step(
        &mut self,
        session: &Session,
        keep_for: i64,
        rows_max: i64,
    ) -> Result<RetentionStep, tokio_postgres::Error> {
        if self.has_ended {
            return Ok(RetentionStep { removed: 0, next_cursor: 0, has_more: false });
        }
        if rows_max == 0 {
            return Ok(RetentionStep { removed: 0, next_cursor: self.cursor, has_more: true });
        }
        let rows = session.transact(&DELETE_DELIVERED, &[&self.cursor, &keep_for, &rows_max]).await?;
        let row = rows.first().expect("the statement returns one row");
        let (removed, examined): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
        let (last_key, reached_recent): (Option<i64>, bool) = (row.try_get(2)?, row.try_get(3)?);
        if self.cursor == 0 {
            self.cutoff = row.try_get(4)?;
        }
        let has_more = examined >= rows_max && !reached_recent;
        self.cursor = last_key.filter(|_| has_more).unwrap_or(0);
        self.has_ended = !has_more;
        if self.has_ended {
            self.completed_to = Some(self.cutoff);
        }
        let removed = usize::try_from(removed).unwrap_or(0);
        Ok(RetentionStep { removed, next_cursor: self.cursor, has_more })
    }
}
