//! Forgetting what retention no longer keeps.

use posthaste_domain::{EventKey, Timestamp};
use posthaste_store::{Maintained, Retention};

use crate::state::State;

pub(crate) fn maintain(state: &mut State, now: Timestamp, retention: &Retention) -> Maintained {
    state.idempotency.retain(|_, remembered| remembered.forget_at > now);
    let Some(keep) = retention.keep else {
        return Maintained::default();
    };
    let horizon = now.before(keep);

    let old = |delivered_at: Option<Timestamp>| delivered_at.is_some_and(|at| at <= horizon);
    let events: Vec<EventKey> =
        state.rows.iter().filter(|(_, row)| old(row.delivered_at)).map(|(key, _)| *key).collect();
    for key in events.iter().take(retention.rows_max) {
        if let Some(row) = state.rows.remove(key) {
            state.keys.remove(&row.event_id);
        }
    }
    let removed = events.len().min(retention.rows_max);
    state.revision += 1;
    // What belongs to an event goes with it; what belongs to one that stays goes by its own age.
    let rows = &state.rows;
    state.attempts.retain(|_, attempt| rows.contains_key(&attempt.key) && attempt.recorded_at > horizon);
    state.audit.retain(|(key, _)| rows.contains_key(key));
    state.notices.retain(|published| published.notice.at > horizon);
    Maintained { removed, more: events.len() > removed }
}
