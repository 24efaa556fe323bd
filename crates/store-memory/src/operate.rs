//! Operator actions on events.

use posthaste_domain::{DeliveryStatus, EventId, EventKey, TerminalState, Timestamp, clean_reason};
use posthaste_store::{ActionRequest, AuditView, EventView, ManualAction, RecordedAction, StoreError};

use crate::state::{Row, State};

pub(crate) fn requeue(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
) -> Result<EventView, StoreError> {
    let key = state.find_key(event_id)?;
    if let Some(audit) = find_recorded(state, event_id, ManualAction::Requeue, request)? {
        return Ok(state.rows[&key].view(key).as_left_by(&audit));
    }
    let status = state.rows[&key].status;
    if status != DeliveryStatus::Failed {
        return Err(StoreError::NotRequeueable { event_id: event_id.clone(), status });
    }
    Ok(reopen(state, now, key, ManualAction::Requeue, request))
}

/// Moves a failed event to `pending`, due now, with its attempts reset.
pub(crate) fn reopen(
    state: &mut State,
    now: Timestamp,
    key: EventKey,
    action: ManualAction,
    request: ActionRequest<'_>,
) -> EventView {
    act(state, now, key, action, request, None, |row| {
        row.status = DeliveryStatus::Pending;
        row.failure_kind = None;
        row.attempts = 0;
        row.lost_leases = 0;
        row.next_attempt_at = Some(now);
        row.last_error = None;
        row.lease = None;
        row.updated_at = now;
    })
}

pub(crate) fn cancel(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> Result<EventView, StoreError> {
    let key = state.find_key(event_id)?;
    if let Some(audit) = find_recorded(state, event_id, ManualAction::Cancel, request)? {
        return Ok(state.rows[&key].view(key).as_left_by(&audit));
    }
    let status = state.rows[&key].status;
    if status == DeliveryStatus::Delivered {
        return Err(StoreError::NotCancellable { event_id: event_id.clone(), status });
    }
    let terminal_state = TerminalState::cancelled(reason);
    let view = act(state, now, key, ManualAction::Cancel, request, terminal_state.reason(), |row| {
        row.end_without_attempt(&terminal_state, now);
    });
    // The notice of a failed event has already been published.
    if status == DeliveryStatus::Pending {
        state.publish(key, terminal_state.notice_kind(), now);
    }
    Ok(view)
}

pub(crate) fn discard(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    request: ActionRequest<'_>,
    reason: Option<&str>,
) -> Result<AuditView, StoreError> {
    if let Some(audit) = find_recorded(state, event_id, ManualAction::Discard, request)? {
        return Ok(audit);
    }
    let key = state.find_key(event_id)?;
    let status = state.rows[&key].status;
    if status != DeliveryStatus::Failed {
        return Err(StoreError::NotDiscardable { event_id: event_id.clone(), status });
    }
    state.remove_event(key);
    let (action, actor) = (ManualAction::Discard, request.actor.to_owned());
    let discard = AuditView { action, actor, at: now, reason: clean_reason(reason) };
    record_audit(state, key, event_id, request, discard.clone());
    state.discarded.insert(event_id.clone(), key);
    Ok(discard)
}

/// Changes a row and records the action in the audit log.
fn act(
    state: &mut State,
    now: Timestamp,
    key: EventKey,
    action: ManualAction,
    request: ActionRequest<'_>,
    reason: Option<&str>,
    change: impl FnOnce(&mut Row),
) -> EventView {
    let audit =
        AuditView { action, actor: request.actor.to_owned(), at: now, reason: reason.map(str::to_owned) };
    let row = state.row_mut(key).expect("the caller found the key in the rows");
    change(row);
    row.manual_last = Some(audit.clone());
    let view = row.view(key);
    record_audit(state, key, &view.event_id, request, audit);
    view
}

/// Writes the audit row of an action, under its key if it has one.
pub(crate) fn record_audit(
    state: &mut State,
    key: EventKey,
    event_id: &EventId,
    request: ActionRequest<'_>,
    audit: AuditView,
) {
    if let Some(operation_key) = request.key {
        let recorded = RecordedAction { event_id: event_id.clone(), audit: audit.clone() };
        state.operations.insert(operation_key.to_owned(), (key, recorded));
    }
    state.audit.push((key, audit));
}

/// Returns the audit row of this action under the request's key, if the action has been applied before.
fn find_recorded(
    state: &State,
    event_id: &EventId,
    action: ManualAction,
    request: ActionRequest<'_>,
) -> Result<Option<AuditView>, StoreError> {
    let Some(operation_key) = request.key else { return Ok(None) };
    let Some((_, recorded)) = state.operations.get(operation_key) else { return Ok(None) };
    recorded.clone().require_same(event_id, action, operation_key).map(Some)
}
