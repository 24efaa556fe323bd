//! Removal of destinations that no event refers to, a few per maintenance step.
//!
//! An enqueue looks up its destination in the transaction that inserts the event, so no event can refer to a removed one.

use posthaste_domain::{DestinationId, Timestamp};
use rusqlite::Connection;

/// The destinations after an id, each with whether it is unused: no event refers to it, and it was neither created nor began to
/// fail nor was changed by an operator since the horizon. A URL is also in use while it is paused, reported as open, or has keys
/// of its own; an endpoint is in use until it is deleted. Indexes: webhook_events_destination,
/// webhook_destination_audit_destination, and the primary keys of webhook_circuits and webhook_endpoints.
pub(crate) const EXAMINE: &str = "
    SELECT d.id,
           max(d.created_at, coalesce(d.failing_since, 0)) <= ?2
           AND CASE d.kind
               WHEN 'endpoint' THEN EXISTS (SELECT 1 FROM webhook_endpoints p
                                            WHERE p.destination_id = d.id AND p.deleted_at IS NOT NULL)
               ELSE d.profile_version = 0 AND coalesce(d.paused_until, 0) <= ?4
                    AND NOT EXISTS (SELECT 1 FROM webhook_circuits c
                                    WHERE c.destination_id = d.id AND c.expires_at > ?4)
               END
           AND NOT EXISTS (SELECT 1 FROM webhook_events e WHERE e.destination_id = d.id)
           AND NOT EXISTS (SELECT 1 FROM webhook_destination_audit a WHERE a.destination_id = d.id AND a.at > ?2)
    FROM webhook_destinations d
    WHERE d.id > ?1
    ORDER BY d.id
    LIMIT ?3";

/// Removes a destination and what belongs to it. Its queue holds only consumed rows.
const REMOVE: [&str; 7] = [
    "DELETE FROM webhook_first_attempts WHERE destination_id = ?1",
    "DELETE FROM webhook_circuits WHERE destination_id = ?1",
    "DELETE FROM webhook_destination_audit WHERE destination_id = ?1",
    "DELETE FROM webhook_line_leases WHERE destination_id = ?1",
    "DELETE FROM webhook_sealed_values WHERE destination_id = ?1",
    "DELETE FROM webhook_endpoints WHERE destination_id = ?1",
    "DELETE FROM webhook_destinations WHERE id = ?1",
];

/// Examines up to `rows_max` destinations after the cursor and removes the unused ones. Advances the cursor, or resets it
/// at the end of the table. Returns whether a step that follows at once would probably remove more.
pub(crate) fn remove_unused(
    db: &Connection,
    cursor: &mut i64,
    now: Timestamp,
    horizon: Timestamp,
    rows_max: i64,
) -> rusqlite::Result<bool> {
    let examined: Vec<(DestinationId, bool)> = db
        .prepare_cached(EXAMINE)?
        .query_map((*cursor, horizon.as_micros(), rows_max, now.as_micros()), |row| {
            Ok((DestinationId(row.get(0)?), row.get(1)?))
        })?
        .collect::<Result<_, _>>()?;
    let unused: Vec<DestinationId> =
        examined.iter().filter(|(_, is_unused)| *is_unused).map(|(id, _)| *id).collect();
    for destination in &unused {
        for sql in REMOVE {
            db.prepare_cached(sql)?.execute([destination.0])?;
        }
    }
    let is_at_end = i64::try_from(examined.len()).unwrap_or(i64::MAX) < rows_max;
    *cursor = examined.last().filter(|_| !is_at_end).map_or(0, |(id, _)| id.0);
    Ok(!is_at_end && !unused.is_empty())
}
