//! Retention: removing old rows.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, DestinationId, EventKey, Timestamp};
use posthaste_store::{AuditView, MaintenanceReport, ManualAction, OperationState, Retention};

use crate::registry::{self, OperationRow};
use crate::secrets;
use crate::state::{Row, State};

/// Removes expired keys, retired secrets, old attempts, notices and discards, and up to `rows_max` old events.
pub(crate) fn maintain(state: &mut State, now: Timestamp, retention: &Retention) -> MaintenanceReport {
    state.idempotency.retain(|_, entry| entry.expires_at > now);
    state.registry.answers.retain(|_, row| row.expires_at > now);
    secrets::remove_retired(state, now);
    registry::remove_retired_keys(state, now);
    let mut has_more = registry::cancel_of_deleted(state, now, retention.rows_max);
    has_more |= registry::expunge_expired(state, now, retention.rows_max);
    let old: Vec<EventKey> =
        state.rows.iter().filter(|(_, row)| is_old(row, now, retention)).map(|(key, _)| *key).collect();
    let removed = old.len().min(retention.rows_max);
    for key in &old[..removed] {
        let row = &state.rows[key];
        let (event_id, is_dead_letter) = (row.event_id.clone(), row.status == DeliveryStatus::Failed);
        state.remove_event(*key);
        // The notices of a delivered event are as old as the event, and are removed by their own age.
        state.notices.retain(|published| !is_dead_letter || published.notice.event_id != event_id);
    }
    if let Some(keep_for) = retention.keep_for {
        let horizon = now.before(keep_for);
        // Attempts of kept events are removed by their own age.
        state.attempts.retain(|_, attempt| attempt.recorded_at > horizon);
        state.notices.retain(|published| published.notice.at > horizon);
        forget_old_discards(state, horizon);
        has_more |= registry::remove_old_messages(state, horizon, retention.rows_max);
        let is_kept = |row: &OperationRow| {
            row.operation.state == OperationState::Running || row.operation.updated_at > horizon
        };
        state.registry.operations.retain(|_, row| is_kept(row));
        state.bulk.operations.retain(|_, row| {
            let operation = &row.running.operation;
            operation.state == OperationState::Running || operation.updated_at > horizon
        });
    }
    if let Some(keep_for) = retention.keep_unused_destinations_for {
        remove_unused_destinations(state, now, now.before(keep_for));
    }
    registry::remove_deleted_applications(state);
    let (rows, discarded) = (&state.rows, &state.discarded);
    let is_kept = |key: &EventKey| rows.contains_key(key) || discarded.values().any(|kept| kept == key);
    state.audit.retain(|(key, _)| is_kept(key));
    state.operations.retain(|_, (key, _)| is_kept(key));
    state.revision += 1;
    MaintenanceReport { removed, has_more: has_more || old.len() > removed }
}

/// Returns whether retention removes an event: a delivered one by its delivery, a failed one by its last change.
fn is_old(row: &Row, now: Timestamp, retention: &Retention) -> bool {
    let is_before = |at: Timestamp, keep_for: Duration| at <= now.before(keep_for);
    match row.status {
        DeliveryStatus::Pending => false,
        DeliveryStatus::Delivered => {
            row.delivered_at.zip(retention.keep_for).is_some_and(|(at, keep_for)| is_before(at, keep_for))
        }
        DeliveryStatus::Failed => {
            retention.keep_dead_letters_for.is_some_and(|keep_for| is_before(row.updated_at, keep_for))
        }
    }
}

/// Removes the destinations that no event refers to, that are neither paused nor reported as open, and that were neither
/// created nor began to fail nor were changed by an operator since the horizon. Keeps endpoints that are not deleted, and
/// destinations with keys or headers of their own.
fn remove_unused_destinations(state: &mut State, now: Timestamp, horizon: Timestamp) {
    let mut kept: BTreeSet<DestinationId> = state.rows.values().map(|row| row.destination_id).collect();
    let recent = state.destination_audit.iter().filter(|(_, audit)| audit.at > horizon);
    kept.extend(recent.map(|(id, _)| *id));
    state.destinations.retain(|id, destination| {
        let is_recent = Some(destination.created_at).max(destination.failing_since) > Some(horizon);
        let is_used = match &destination.endpoint {
            Some(endpoint) => endpoint.deleted_at.is_none(),
            None => destination.profile_version > 0 || destination.status(*id, now).is_held(),
        };
        is_recent || is_used || kept.contains(id)
    });
    let destinations = &state.destinations;
    state.destination_audit.retain(|(id, _)| destinations.contains_key(id));
}

/// Forgets the events that were discarded before the horizon, so that their ids can be used again.
fn forget_old_discards(state: &mut State, horizon: Timestamp) {
    let is_recent_discard = |audit: &AuditView| audit.action == ManualAction::Discard && audit.at > horizon;
    let recent: BTreeSet<EventKey> =
        state.audit.iter().filter(|(_, audit)| is_recent_discard(audit)).map(|(key, _)| *key).collect();
    state.discarded.retain(|_, key| recent.contains(key));
}
