//! Operator actions on events.

use posthaste_domain::{DeliveryStatus, EventId, EventKey, TerminalState, Timestamp, clean_reason};
use posthaste_store::{AuditView, EventView, ManualAction, StoreError};

use crate::state::{Row, State};

pub(crate) fn requeue(
    state: &mut State,
    now: Timestamp,
    event_id: &EventId,
    actor: &str,
) -> Result<EventView, StoreError> {
    let key = state.find_key(event_id)?;
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
    let key = state.find_key(event_id)?;
    let status = state.rows[&key].status;
    if status == DeliveryStatus::Delivered {
        return Err(StoreError::NotCancellable { event_id: event_id.clone(), status });
    }
    let terminal_state = TerminalState::cancelled(reason);
    let view = act(state, now, key, ManualAction::Cancel, actor, terminal_state.reason(), |row| {
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
    actor: &str,
    reason: Option<&str>,
) -> Result<AuditView, StoreError> {
    let key = state.find_key(event_id)?;
    let status = state.rows[&key].status;
    if status != DeliveryStatus::Failed {
        return Err(StoreError::NotDiscardable { event_id: event_id.clone(), status });
    }
    state.remove_event(key);
    let (action, actor) = (ManualAction::Discard, actor.to_owned());
    let discard = AuditView { action, actor, at: now, reason: clean_reason(reason) };
    state.audit.push((key, discard.clone()));
    state.discarded.insert(event_id.clone(), key);
    Ok(discard)
}

/// Changes a row and records the action in the audit log.
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
    let row = state.row_mut(key).expect("the caller found the key in the rows");
    change(row);
    row.manual_last = Some(audit.clone());
    let view = row.view(key);
    state.audit.push((key, audit));
    view
}
