//! Disabling and enabling endpoints, and the order of their events.

use posthaste_domain::{DeliveryOrder, DestinationId, DisableReason, Timestamp};
use posthaste_store::DestinationAction;
use rusqlite::Connection;

use crate::claim::line;
use crate::claims;
use crate::destination::record_audit;

/// Disables an endpoint that is enabled. Returns whether it was. A disabled endpoint is paused without end, so claims and
/// overviews hold its events without a condition of their own.
pub(crate) fn disable(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    reason: DisableReason,
    actor: &str,
) -> rusqlite::Result<bool> {
    let disabled = db
        .prepare_cached(
            "UPDATE webhook_destinations
             SET disabled_at = ?2, disabled_reason = ?3, paused_until = 9223372036854775807
             WHERE id = ?1 AND disabled_at IS NULL",
        )?
        .execute((id.0, now.as_micros(), reason.as_str()))?;
    if disabled > 0 {
        touch(db, now, id)?;
        record_audit(db, now, id, DestinationAction::Disable, actor, None, Some(reason.as_str()))?;
    }
    Ok(disabled > 0)
}

/// Enables an endpoint that is disabled, and gives its receiver a new start. A pause by an operator stays.
pub(super) fn enable(
    db: &Connection,
    now: Timestamp,
    id: DestinationId,
    actor: &str,
) -> rusqlite::Result<()> {
    let enabled = db
        .prepare_cached(
            "UPDATE webhook_destinations
             SET disabled_at = NULL, disabled_reason = NULL, failing_since = NULL, receiver_paused_at = NULL,
                 receiver_paused_until = NULL, resumed_at = ?2,
                 paused_until = CASE WHEN operator_paused_at IS NOT NULL
                                     THEN coalesce(operator_paused_until, 9223372036854775807) END
             WHERE id = ?1 AND disabled_at IS NOT NULL",
        )?
        .execute((id.0, now.as_micros()))?;
    if enabled > 0 {
        touch(db, now, id)?;
        db.prepare_cached("DELETE FROM webhook_circuits WHERE destination_id = ?1")?.execute([id.0])?;
        record_audit(db, now, id, DestinationAction::Enable, actor, None, None)?;
    }
    Ok(())
}

fn touch(db: &Connection, now: Timestamp, id: DestinationId) -> rusqlite::Result<()> {
    db.prepare_cached("UPDATE webhook_endpoints SET updated_at = ?2 WHERE destination_id = ?1")?
        .execute((id.0, now.as_micros()))?;
    Ok(())
}

/// Changes the order of an endpoint's events. Leases that workers hold already are recorded as leases of the line, which waits
/// for them. Reads all leases.
pub(super) fn set_order(db: &Connection, id: DestinationId, order: DeliveryOrder) -> rusqlite::Result<()> {
    let is_fifo = order == DeliveryOrder::Fifo;
    db.prepare_cached("UPDATE webhook_destinations SET is_fifo = ?2 WHERE id = ?1")?
        .execute((id.0, is_fifo))?;
    db.prepare_cached("DELETE FROM webhook_line_leases WHERE destination_id = ?1")?.execute([id.0])?;
    if is_fifo {
        for key in claims::leased_events(db, id)? {
            line::record_lease(db, id, key)?;
        }
    }
    Ok(())
}
