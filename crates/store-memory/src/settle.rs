//! Writing the results of attempts.

use std::sync::Arc;

use posthaste_domain::{
    Decision, DeliveryStatus, EndpointDisable, NoticeKind, ReceiverHealth, Timestamp, WorkerId,
};
use posthaste_store::{SYSTEM_ACTOR, SettleResult, Settlement};

use crate::registry;
use crate::state::{Attempt, Row, State};

/// Writes the settlements whose leases are held, then records the others as not applied.
pub(crate) fn settle(
    state: &mut State,
    now: Timestamp,
    worker: &WorkerId,
    batch: &[Settlement],
) -> Vec<SettleResult> {
    let applied: Vec<bool> = batch.iter().map(|settlement| apply(state, now, worker, settlement)).collect();
    let result = |(settlement, applied): (&Settlement, bool)| match applied {
        true => SettleResult::Applied,
        false => record_unapplied(state, now, worker, settlement),
    };
    batch.iter().zip(applied).map(result).collect()
}

/// Writes one settlement if the event still holds its token. Returns whether it did.
fn apply(state: &mut State, now: Timestamp, worker: &WorkerId, settlement: &Settlement) -> bool {
    let transition = &settlement.transition;
    let started_at = started_at(settlement, now);
    let Some(row) = state.find_leased(transition.key(), transition.token()) else {
        return false;
    };
    change_row(row, settlement, started_at, now);
    record_attempt(state, now, worker, settlement, true);
    state.pause(transition.destination_id(), now, transition.destination_pause());
    record_health(state, settlement, now);
    if let Some(kind) = transition.notice_kind() {
        state.publish(transition.key(), kind, now);
    }
    disable_endpoint(state, settlement, now);
    true
}

/// Disables the endpoint of an event, if the result of its attempt says so. Does nothing if the event goes to a URL.
fn disable_endpoint(state: &mut State, settlement: &Settlement, now: Timestamp) {
    let transition = &settlement.transition;
    let (id, Some(rule)) = (transition.destination_id(), transition.endpoint_disable()) else { return };
    let Some(destination) = state.destinations.get(&id).filter(|it| it.endpoint.is_some()) else { return };
    let is_over = match rule {
        EndpointDisable::Gone => true,
        EndpointDisable::FailingFor(limit) => {
            destination.failing_since.is_some_and(|since| now.since(since) >= limit)
        }
    };
    if is_over && registry::disable(state, now, id, rule.reason(), SYSTEM_ACTOR) {
        state.publish(transition.key(), NoticeKind::EndpointDisabled(rule.reason()), now);
    }
}

/// Records an attempt whose lease was lost, unless it is recorded already or its event no longer exists.
fn record_unapplied(
    state: &mut State,
    now: Timestamp,
    worker: &WorkerId,
    settlement: &Settlement,
) -> SettleResult {
    let transition = &settlement.transition;
    match state.attempts.get(&transition.token()) {
        Some(recorded) if recorded.applied => return SettleResult::Replayed,
        Some(_) => {}
        None if state.rows.contains_key(&transition.key()) => {
            state.revision += 1;
            record_attempt(state, now, worker, settlement, false);
        }
        None => {}
    }
    SettleResult::Stale
}

fn record_attempt(
    state: &mut State,
    now: Timestamp,
    worker: &WorkerId,
    settlement: &Settlement,
    applied: bool,
) {
    let attempt = Attempt {
        key: settlement.transition.key(),
        transition: Arc::clone(&settlement.transition),
        started_at: started_at(settlement, now),
        recorded_at: now,
        revision: state.revision,
        worker: worker.clone(),
        applied,
    };
    state.attempts.insert(settlement.transition.token(), attempt);
}

/// Returns when the attempt began.
fn started_at(settlement: &Settlement, now: Timestamp) -> Timestamp {
    now.before(settlement.ended_ago).before(settlement.transition.duration())
}

/// Applies the transition to the row and ends its lease.
fn change_row(row: &mut Row, settlement: &Settlement, started_at: Timestamp, now: Timestamp) {
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
