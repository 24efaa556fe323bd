//! Lines: endpoints in FIFO order get one event at a time, and a retry holds the events behind it.

use posthaste_domain::{DestinationId, EventKey, Timestamp};
use rusqlite::{Connection, OptionalExtension as _};

use crate::row;

/// Events of a line that are leased, by key. Both tables by primary key; leases that have ended leave a row without effect.
pub(crate) const LEASED: &str = "
    SELECT l.id, q.lease_until
    FROM webhook_line_leases l
    CROSS JOIN webhook_queue q ON q.id = l.id
    WHERE l.destination_id = ?1 AND q.lease_until IS NOT NULL
    ORDER BY l.id";

/// The event with the smallest key among those of a destination without a lease. First attempts are sought by primary key,
/// deferred events by webhook_deferred_id. All retries of the line are read: there is one, unless the endpoint was not in FIFO
/// order before.
pub(crate) const FIRST_WAITING: &str = "
    SELECT min(id) FROM (
        SELECT min(id) AS id FROM webhook_first_attempts
        WHERE destination_id = ?1
          AND id >= (SELECT first_attempts_head FROM webhook_destinations WHERE id = ?1)
        UNION ALL
        SELECT min(id) FROM webhook_deferred WHERE destination_id = ?1
        UNION ALL
        SELECT min(id) FROM webhook_retries WHERE destination_id = ?1)";

/// Returns the head of a line: the first event whose lease has expired, or else the first that waits. There is none while an
/// event of the line is under a live lease.
pub(super) fn head(
    db: &Connection,
    now: Timestamp,
    destination: DestinationId,
) -> rusqlite::Result<Option<EventKey>> {
    let mut leased = db.prepare_cached(LEASED)?;
    let leased: Vec<(EventKey, Timestamp)> = leased
        .query_map([destination.0], |row| Ok((EventKey(row.get(0)?), row::timestamp(row, 1)?)))?
        .collect::<Result<_, _>>()?;
    if leased.iter().any(|(_, until)| *until > now) {
        return Ok(None);
    }
    if let Some((expired, _)) = leased.first() {
        return Ok(Some(*expired));
    }
    let first = db.prepare_cached(FIRST_WAITING)?.query_row([destination.0], |row| row.get(0)).optional()?;
    Ok(first.flatten().map(EventKey))
}

/// Records the lease on the head of a line, and forgets the leases of the line that have ended.
pub(crate) fn record_lease(
    db: &Connection,
    destination: DestinationId,
    key: EventKey,
) -> rusqlite::Result<()> {
    db.prepare_cached(
        "DELETE FROM webhook_line_leases
         WHERE destination_id = ?1
           AND NOT EXISTS (SELECT 1 FROM webhook_queue q
                           WHERE q.id = webhook_line_leases.id AND q.lease_token IS NOT NULL)",
    )?
    .execute([destination.0])?;
    db.prepare_cached("INSERT OR IGNORE INTO webhook_line_leases (destination_id, id) VALUES (?1, ?2)")?
        .execute((destination.0, key.0))?;
    Ok(())
}
