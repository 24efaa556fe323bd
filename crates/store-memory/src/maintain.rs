//! Retention: removing old rows.

use std::collections::BTreeSet;

use posthaste_domain::{EventKey, Timestamp};
use posthaste_store::{AuditView, MaintenanceReport, ManualAction, Retention};

use crate::state::State;

/// Removes expired keys, old attempts and notices, and up to `rows_max` old delivered events.
pub(crate) fn maintain(state: &mut State, now: Timestamp, retention: &Retention) -> MaintenanceReport {
    state.idempotency.retain(|_, entry| entry.expires_at > now);
    let Some(keep_for) = retention.keep_for else {
        return MaintenanceReport::default();
    };
    let horizon = now.before(keep_for);

    let is_old = |delivered_at: Option<Timestamp>| delivered_at.is_some_and(|at| at <= horizon);
    let events: Vec<EventKey> =
        state.rows.iter().filter(|(_, row)| is_old(row.delivered_at)).map(|(key, _)| *key).collect();
    for key in events.iter().take(retention.rows_max) {
        state.remove_event(*key);
    }
    let removed = events.len().min(retention.rows_max);
    state.revision += 1;
    // Attempts of kept events are removed by their own age.
    state.attempts.retain(|_, attempt| attempt.recorded_at > horizon);
    forget_old_discards(state, horizon);
    let (rows, discarded) = (&state.rows, &state.discarded);
    state.audit.retain(|(key, _)| rows.contains_key(key) || discarded.values().any(|kept| kept == key));
    state.notices.retain(|published| published.notice.at > horizon);
    MaintenanceReport { removed, has_more: events.len() > removed }
}

/// Forgets the events that were discarded before the horizon, so that their ids can be used again.
fn forget_old_discards(state: &mut State, horizon: Timestamp) {
    let is_recent_discard = |audit: &AuditView| audit.action == ManualAction::Discard && audit.at > horizon;
    let recent: BTreeSet<EventKey> =
        state.audit.iter().filter(|(_, audit)| is_recent_discard(audit)).map(|(key, _)| *key).collect();
    state.discarded.retain(|_, key| recent.contains(key));
}
