//! Expiry: dead-lettering events that have been pending for too long.

use std::ops::Bound;

use posthaste_domain::{DeliveryStatus, DestinationId, EventKey, Hold, TerminalState, Timestamp};
use posthaste_store::{ExpireRequest, ExpireResponse};

use crate::state::State;

/// Dead-letters the expired events among the next `rows_max` pending events.
pub(crate) fn expire(state: &mut State, now: Timestamp, request: &ExpireRequest) -> ExpireResponse {
    let horizon = now.before(request.expire_after);
    let start = request.after.map_or(Bound::Unbounded, Bound::Excluded);
    let examined: Vec<EventKey> = state
        .rows
        .range((start, Bound::Unbounded))
        .filter(|(_, row)| row.status == DeliveryStatus::Pending)
        .map(|(key, _)| *key)
        .take(request.rows_max)
        .collect();
    let last = examined.last().filter(|_| examined.len() == request.rows_max);
    let next = last.copied().filter(|last| state.rows[last].created_at <= horizon);
    let mut expired = Vec::new();
    for key in examined {
        let row = &state.rows[&key];
        let is_in_flight = row.lease.as_ref().is_some_and(|lease| !lease.is_expired(now));
        if is_in_flight || row.enqueued_at() > horizon {
            continue;
        }
        let hold = hold(state, row.destination_id, now);
        let terminal_state = TerminalState::expired(request.expire_after, row.last_error.as_deref(), hold);
        expired.push(row.event_id.clone());
        state.row_mut(key).expect("the key is in the rows").end_without_attempt(&terminal_state, now);
        state.publish(key, terminal_state.notice_kind(), now);
    }
    ExpireResponse { expired, next }
}

/// Returns what keeps the events of a destination from being claimed, if anything does.
fn hold(state: &State, destination: DestinationId, now: Timestamp) -> Option<Hold> {
    let status = state.destinations.get(&destination)?.status(destination, now);
    let is_paused = status.operator_pause.is_some() || status.receiver_pause.is_some();
    Hold::of_destination(status.disabled.is_some(), is_paused, status.circuit.is_some())
}
