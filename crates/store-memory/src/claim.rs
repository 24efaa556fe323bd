//! Granting, extending and giving back leases.

use std::collections::BTreeMap;
use std::time::Duration;

use posthaste_domain::{DestinationId, Ending, EventId, EventKey, Lease, LeaseToken, Timestamp, Trigger};
use posthaste_store::{ClaimRequest, Claimed, HeldLease, ManualAction};
use rand::RngExt as _;

use crate::state::{GrantedLease, Row, State};

pub(crate) fn claim(state: &mut State, now: Timestamp, request: &ClaimRequest) -> Claimed {
    let granted_before = granted_before(state, now, request);
    if !granted_before.is_empty() {
        return Claimed { leases: granted_before, abandoned: Vec::new() };
    }
    let abandoned = abandon(state, now, request.abandon_after);
    let leases = pick(state, now, request).into_iter().map(|key| grant(state, now, key, request)).collect();
    Claimed { leases, abandoned }
}

/// A claim that leaves the picking to its caller.
pub(crate) fn claim_exactly(
    state: &mut State,
    now: Timestamp,
    request: &ClaimRequest,
    keys: &[EventKey],
) -> Claimed {
    let abandoned = abandon(state, now, request.abandon_after);
    let leases = keys.iter().map(|key| grant(state, now, *key, request)).collect();
    Claimed { leases, abandoned }
}

/// The event that has been due longest goes first, whether it is a first attempt or a retry.
fn pick(state: &State, now: Timestamp, request: &ClaimRequest) -> Vec<EventKey> {
    let mut ready: Vec<(Option<Timestamp>, EventKey)> = state
        .rows
        .iter()
        .filter(|(_, row)| row.is_ready(now))
        .map(|(key, row)| (row.next_attempt_at, *key))
        .collect();
    ready.sort_unstable();

    let mut taken: BTreeMap<DestinationId, usize> = BTreeMap::new();
    let mut retries = 0;
    let mut picked = Vec::new();
    for (_, key) in ready {
        if picked.len() == request.limit {
            break;
        }
        let row = &state.rows[&key];
        let destination = row.destination_id;
        let taken = taken.entry(destination).or_default();
        let is_retry = row.attempts > 0;
        let fits =
            *taken < request.free_slots_of(destination) && (!is_retry || retries < request.retries_max);
        if fits && !state.is_paused(destination, now) {
            *taken += 1;
            retries += usize::from(is_retry);
            picked.push(key);
        }
    }
    picked
}

/// What this very claim was granted when its reply got lost.
fn granted_before(state: &mut State, now: Timestamp, request: &ClaimRequest) -> Vec<Lease> {
    let mut leases = Vec::new();
    for (key, row) in &mut state.rows {
        if let Some(granted) = row.lease.as_mut().filter(|granted| granted.claim == request.id) {
            granted.until = now.after(request.lease);
            state.revision += 1;
            let token = granted.token;
            leases.push(lease_of(row, *key, token, now));
        }
    }
    leases
}

/// Dead-letters events whose expired lease is one too many.
fn abandon(state: &mut State, now: Timestamp, abandon_after: u32) -> Vec<EventId> {
    let ending = |row: &Row| Ending::after_lost_leases(row.lost_leases + 1, abandon_after);
    let expired = |row: &Row| row.lease.as_ref().is_some_and(|lease| lease.is_expired(now));
    let given_up: Vec<(EventKey, Ending)> = state
        .rows
        .iter()
        .filter(|(_, row)| expired(row))
        .filter_map(|(key, row)| Some((*key, ending(row)?)))
        .collect();
    let mut abandoned = Vec::new();
    for (key, ending) in given_up {
        if let Some(row) = state.row_mut(key) {
            row.lost_leases += 1;
            row.end_by(&ending, now);
            abandoned.push(row.event_id.clone());
            state.publish(key, ending.notice(), now);
        }
    }
    abandoned
}

fn grant(state: &mut State, now: Timestamp, key: EventKey, request: &ClaimRequest) -> Lease {
    let token = LeaseToken::random(state.random.random());
    let row = state.row_mut(key).expect("claimed keys come from the rows");
    // A lease found here has expired, or the row would not be ready.
    row.lost_leases += u32::from(row.lease.is_some());
    row.claims += 1;
    row.updated_at = now;
    let (claim, owner, until) = (request.id, request.owner.clone(), now.after(request.lease));
    row.lease = Some(GrantedLease { claim, token, owner, until });
    lease_of(row, key, token, now)
}

fn lease_of(row: &Row, key: EventKey, token: LeaseToken, now: Timestamp) -> Lease {
    let requeued = row.manual_last.as_ref().is_some_and(|last| last.action == ManualAction::Requeue);
    Lease {
        token,
        key,
        event_id: row.event_id.clone(),
        message_id: row.message_id,
        destination_id: row.destination_id,
        destination_url: row.destination_url.clone(),
        event_type: row.event_type.clone(),
        content_type: row.content_type.clone(),
        payload: row.payload.clone(),
        traceparent: row.traceparent.clone(),
        attempts: row.attempts,
        max_attempts: row.max_attempts,
        trigger: Trigger::of(requeued, row.attempts),
        overdue: row.next_attempt_at.map_or(Duration::ZERO, |due| now.since(due)),
    }
}

/// An expired lease that nobody took over is still its holder's to extend.
pub(crate) fn renew(
    state: &mut State,
    now: Timestamp,
    held: &[HeldLease],
    lease: Duration,
) -> Vec<HeldLease> {
    let mut lost = Vec::new();
    for held in held {
        match state.fenced(held.key, held.token).and_then(|row| row.lease.as_mut()) {
            Some(granted) => granted.until = now.after(lease),
            None => lost.push(*held),
        }
    }
    lost
}

pub(crate) fn release(state: &mut State, now: Timestamp, held: &[HeldLease]) {
    for held in held {
        if let Some(row) = state.fenced(held.key, held.token) {
            row.lease = None;
            row.updated_at = now;
        }
    }
}
