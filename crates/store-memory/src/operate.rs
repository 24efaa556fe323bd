//! What operators do, and what they are told of circuits.

use posthaste_domain::{DeliveryStatus, Ending, EventId, EventKey, Timestamp};
use posthaste_store::{AuditView, CircuitReport, EventView, ManualAction, StoreError};

use crate::state::{Row, State};

pub(crate) fn requeue(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    actor: &str,
) -> Result<EventView, StoreError> {
    let key = state.key_of(event_id)?;
    let status = state.rows[&key].status;
    if status != DeliveryStatus::Failed {
        return Err(StoreError::NotRequeueable { event_id: event_id.clone(), status });
    }
    Ok(act(state, now, key, ManualAction::Requeue, actor, None, |row| {
        row.status = DeliveryStatus::Pending;
        row.failure_kind = None;
        row.attempts = 0;
        row.lost_leases = 0;
        row.next_attempt_at = Some(now);
        row.last_error = None;
        row.lease = None;
        row.updated_at = now;
    }))
}

pub(crate) fn cancel(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    actor: &str,
    reason: Option<&str>,
) -> Result<EventView, StoreError> {
    let key = state.key_of(event_id)?;
    let status = state.rows[&key].status;
    if status == DeliveryStatus::Delivered {
        return Err(StoreError::NotCancellable { event_id: event_id.clone(), status });
    }
    let ending = Ending::cancelled(reason);
    let view =
        act(state, now, key, ManualAction::Cancel, actor, ending.reason(), |row| row.end_by(&ending, now));
    // An event that was failed already has had its notice.
    if status == DeliveryStatus::Pending {
        state.publish(key, ending.notice(), now);
    }
    Ok(view)
}

/// Changes the row and leaves the audit row in one step.
fn act(
    state: &mut State,
    now: Timestamp,
    key: EventKey,
    action: ManualAction,
    actor: &str,
    reason: Option<&str>,
    change: impl FnOnce(&mut Row),
) -> EventView {
    let audit = AuditView { action, actor: actor.to_owned(), at: now, reason: reason.map(str::to_owned) };
    let row = state.row_mut(key).expect("the caller found the key among the rows");
    change(row);
    row.manual_last = Some(audit.clone());
    let view = row.view(key);
    state.audit.push((key, audit));
    view
}

pub(crate) fn report_circuits(state: &mut State, now: Timestamp, reports: &[CircuitReport]) {
    for report in reports {
        if let Some(destination) = state.destinations.get_mut(&report.destination) {
            destination.circuit = Some((report.state, now.after(report.expires_in)));
        }
    }
}
