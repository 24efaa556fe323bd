//! Writing the results of attempts.

use std::sync::Arc;

use posthaste_domain::{Decision, DeliveryStatus, ReceiverHealth, Timestamp, WorkerId};
use posthaste_store::{SettleResult, Settlement};

use crate::state::{Attempt, Row, State};

/// Writes one settlement if the event still holds its token.
pub(crate) fn settle(
    state: &mut State,
    now: Timestamp,
    worker: &WorkerId,
    settlement: &Settlement,
) -> SettleResult {
    let transition = &settlement.transition;
    if state.attempts.contains_key(&transition.token()) {
        return SettleResult::Replayed;
    }
    let started_at = now.before(settlement.ended_ago).before(transition.duration());
    let Some(row) = state.find_leased(transition.key(), transition.token()) else {
        return SettleResult::Stale;
    };
    apply(row, settlement, started_at, now);
    let attempt = Attempt {
        key: transition.key(),
        transition: Arc::clone(transition),
        started_at,
        recorded_at: now,
        revision: state.revision,
        worker: worker.clone(),
    };
    state.attempts.insert(transition.token(), attempt);
    state.pause(transition.destination_id(), now, transition.destination_pause());
    record_health(state, settlement, now);
    if let Some(kind) = transition.notice_kind() {
        state.publish(transition.key(), kind, now);
    }
    SettleResult::Applied
}

/// Applies the transition to the row and ends its lease.
fn apply(row: &mut Row, settlement: &Settlement, started_at: Timestamp, now: Timestamp) {
    let transition = &settlement.transition;
    row.attempts = transition.attempt();
    row.lost_leases = 0;
    row.last_attempted_at = Some(started_at);
    row.last_error = transition.last_error();
    match transition.decision() {
        Decision::Retry { after } => {
            row.next_attempt_at = Some(now.after(after));
            row.lease = None;
            row.updated_at = now;
        }
        Decision::Delivered | Decision::Failed(_) => {
            row.end(transition.status(), transition.failure_kind(), now);
            row.delivered_at = (row.status == DeliveryStatus::Delivered).then_some(now);
        }
    }
}

/// Starts or ends the failing period of the destination.
fn record_health(state: &mut State, settlement: &Settlement, now: Timestamp) {
    let transition = &settlement.transition;
    if let Some(destination) = state.destinations.get_mut(&transition.destination_id()) {
        match transition.outcome().health() {
            ReceiverHealth::Healthy => destination.failing_since = None,
            ReceiverHealth::Unhealthy => destination.failing_since = destination.failing_since.or(Some(now)),
            ReceiverHealth::Unknown => {}
        }
    }
}
