//! Retention: removing old rows.

use posthaste_domain::{EventKey, Timestamp};
use posthaste_store::{MaintenanceReport, Retention};

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
        if let Some(row) = state.rows.remove(key) {
            state.keys.remove(&row.event_id);
        }
    }
    let removed = events.len().min(retention.rows_max);
    state.revision += 1;
    // The attempts and the audit of a removed event go with it. Attempts of kept events are removed by their own age.
    let rows = &state.rows;
    state.attempts.retain(|_, attempt| rows.contains_key(&attempt.key) && attempt.recorded_at > horizon);
    state.audit.retain(|(key, _)| rows.contains_key(key));
    state.notices.retain(|published| published.notice.at > horizon);
    MaintenanceReport { removed, has_more: events.len() > removed }
}
