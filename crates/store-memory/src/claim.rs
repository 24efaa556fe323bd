//! Granting, renewing and releasing leases.

mod fifo;
mod throttle;

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::{
    ClaimId, DestinationId, EventId, EventKey, Lease, LeasePayload, LeaseToken, TerminalState, Timestamp,
    Trigger, WorkerId,
};
use posthaste_store::{
    ClaimRequest, ClaimResponse, EnqueueLease, LeaseRef, PayloadBudget, SlotBudget, split_held,
};
use rand::RngExt as _;

use crate::clock_repair;
use crate::destination::{requested_probes, resumed, updated};
use crate::state::{GrantedLease, Row, State};

/// Serves a claim request. A repeated claim returns its leases again. A new claim dead-letters events that lost too
/// many leases, then grants leases on due events.
pub(crate) fn claim(state: &mut State, now: Timestamp, request: &ClaimRequest) -> ClaimResponse {
    clock_repair::repair(state, now);
    let resumed = resumed(state, now, request.resumed_within);
    let updated = updated(state, now, request.resumed_within);
    let probes = requested_probes(state, now, request.resumed_within);
    let (leases, is_limited_by_bytes) = extend_granted(state, now, request);
    if !leases.is_empty() {
        return ClaimResponse {
            leases,
            resumed,
            updated,
            probes,
            now,
            is_limited_by_bytes,
            ..ClaimResponse::default()
        };
    }
    let abandoned = abandon(state, now, request.abandon_after);
    let (keys, kept_back) = select(state, now, request);
    let terms = GrantTerms::of_claim(request);
    throttle::spend(state, now, &keys);
    let leases = keys.into_iter().map(|key| grant(state, now, key, &terms)).collect();
    let is_limited_by_bytes = !kept_back.is_empty();
    ClaimResponse { leases, abandoned, resumed, updated, probes, now, is_limited_by_bytes, kept_back }
}

/// Claims the events that the caller selected, whatever their size.
pub(crate) fn claim_exactly(
    state: &mut State,
    now: Timestamp,
    request: &ClaimRequest,
    keys: &[EventKey],
) -> ClaimResponse {
    clock_repair::repair(state, now);
    let abandoned = abandon(state, now, request.abandon_after);
    let terms = GrantTerms::of_claim(request);
    throttle::spend(state, now, keys);
    let leases = keys.iter().map(|key| grant(state, now, *key, &terms)).collect();
    let resumed = resumed(state, now, request.resumed_within);
    let updated = updated(state, now, request.resumed_within);
    let probes = requested_probes(state, now, request.resumed_within);
    ClaimResponse { leases, abandoned, resumed, updated, probes, now, ..ClaimResponse::default() }
}

/// Selects the events to lease within the limits of the request: those of destinations that the worker knows to answer
/// first, then the longest due, first attempts and retries alike.
/// Returns also the destinations of which an event was left because of the size of its payload. Such an event keeps back the
/// later events of its destination, but those of no other destination.
fn select(state: &State, now: Timestamp, request: &ClaimRequest) -> (Vec<EventKey>, Vec<DestinationId>) {
    let mut ready: Vec<(Option<Timestamp>, EventKey)> = state
        .rows
        .iter()
        .filter(|(key, row)| row.is_ready(now) && fifo::may_claim(state, now, **key, row))
        .map(|(key, row)| (row.next_attempt_at, *key))
        .collect();
    ready.sort_unstable();

    let mut slots = SlotBudget::new(request);
    let mut payloads = PayloadBudget::new(request);
    let mut throttles = throttle::Budget::new(state, now);
    let mut kept_back = BTreeSet::new();
    let mut selected = BTreeSet::new();
    let known: BTreeSet<DestinationId> = slots.known().into_iter().collect();
    let known_share = slots.known_share();
    let is_known =
        |(_, key): &&(Option<Timestamp>, EventKey)| known.contains(&state.rows[key].destination_id);
    let known_events = || ready.iter().filter(is_known);
    let others = ready.iter().filter(|event| !is_known(event));
    let first = known_events().map(|(_, key)| (*key, known_share));
    let rest = others.chain(known_events()).map(|(_, key)| (*key, request.limit));
    for (key, leases_max) in first.chain(rest) {
        let row = &state.rows[&key];
        let (receiver, is_retry) = (state.receiver(row), row.attempts > 0);
        let may_send = selected.len() < leases_max
            && !selected.contains(&key)
            && slots.available(receiver, is_retry) > 0
            && !state.is_paused(receiver.destination, now)
            && throttles.has_token(row)
            && !kept_back.contains(&receiver.destination);
        if !may_send {
            continue;
        }
        if payloads.take(state.payload(row).len()) {
            slots.take(receiver, 1, is_retry);
            throttles.take(row);
            selected.insert(key);
        } else {
            kept_back.insert(receiver.destination);
        }
    }
    (selected.into_iter().collect(), kept_back.into_iter().collect())
}

/// Extends and returns the leases that an earlier call under the same claim id granted and that it still holds. Releases
/// those whose payloads do not fit, and returns whether there were any.
fn extend_granted(state: &mut State, now: Timestamp, request: &ClaimRequest) -> (Vec<Lease>, bool) {
    let held = state.rows.iter().filter_map(|(key, row)| {
        let granted = row.lease.as_ref().filter(|granted| granted.claim == request.id)?;
        Some((state.payload(row).len(), LeaseRef { key: *key, token: granted.token }))
    });
    let (kept, released) = split_held(held.collect(), request.payload_bytes_max);
    let mut leases = Vec::new();
    for LeaseRef { key, token } in kept {
        let row = state.row_mut(key).expect("the lease is one of the rows'");
        if let Some(granted) = &mut row.lease {
            (granted.until, granted.duration) = (now.after(request.lease), request.lease);
        }
        leases.push(build_lease(state, key, token, now, request.inline_payload_bytes_max));
    }
    release(state, now, &released);
    (leases, !released.is_empty())
}

/// Dead-letters the events that have lost `abandon_after` leases in a row and returns their ids. An expired lease
/// counts as lost.
fn abandon(state: &mut State, now: Timestamp, abandon_after: u32) -> Vec<EventId> {
    let terminal_state = |row: &Row| TerminalState::after_lost_leases(row.lost_leases + 1, abandon_after);
    let expired = |row: &Row| row.lease.as_ref().is_some_and(|lease| lease.is_expired(now));
    let terminal_states: Vec<(EventKey, TerminalState)> = state
        .rows
        .iter()
        .filter(|(_, row)| expired(row))
        .filter_map(|(key, row)| Some((*key, terminal_state(row)?)))
        .collect();
    let mut abandoned = Vec::new();
    for (key, terminal_state) in terminal_states {
        if let Some(row) = state.row_mut(key) {
            row.lost_leases += 1;
            row.end_without_attempt(&terminal_state, now);
            abandoned.push(row.event_id.clone());
            state.publish(key, terminal_state.notice_kind(), now);
        }
    }
    abandoned
}

/// What the leases of one grant have in common.
struct GrantTerms<'a> {
    claim: ClaimId,
    owner: &'a WorkerId,
    duration: Duration,
    inline_payload_bytes_max: usize,
}

impl<'a> GrantTerms<'a> {
    fn of_claim(request: &'a ClaimRequest) -> Self {
        Self {
            claim: request.id,
            owner: &request.owner,
            duration: request.lease,
            inline_payload_bytes_max: request.inline_payload_bytes_max,
        }
    }
}

/// Grants the leases that an enqueue asks for on its events, under a claim id of their own.
pub(crate) fn grant_enqueued(
    state: &mut State,
    now: Timestamp,
    lease: &EnqueueLease,
    keys: &[EventKey],
) -> Vec<Lease> {
    let claim = ClaimId::random(state.random.random());
    let terms = GrantTerms {
        claim,
        owner: &lease.owner,
        duration: lease.duration,
        inline_payload_bytes_max: usize::MAX,
    };
    keys.iter().map(|key| grant(state, now, *key, &terms)).collect()
}

/// Grants a lease under a new token. An expired lease that it replaces counts as lost.
fn grant(state: &mut State, now: Timestamp, key: EventKey, terms: &GrantTerms<'_>) -> Lease {
    let token = LeaseToken::random(state.random.random());
    let row = state.row_mut(key).expect("claimed keys come from the rows");
    // Any lease that the row still has is expired, because the row is ready.
    row.lost_leases += u32::from(row.lease.is_some());
    row.claims += 1;
    row.updated_at = now;
    let (owner, until) = (terms.owner.clone(), now.after(terms.duration));
    row.lease = Some(GrantedLease { claim: terms.claim, token, owner, until, duration: terms.duration });
    build_lease(state, key, token, now, terms.inline_payload_bytes_max)
}

fn build_lease(
    state: &State,
    key: EventKey,
    token: LeaseToken,
    now: Timestamp,
    inline_payload_bytes_max: usize,
) -> Lease {
    let row = &state.rows[&key];
    let payload = state.payload(row);
    let bytes = payload.len();
    let is_inline = bytes <= inline_payload_bytes_max;
    let is_requeued = row.manual_last.as_ref().is_some_and(|last| last.action.restarts());
    Lease {
        token,
        key,
        event_id: row.event_id.clone(),
        wire_id: row.wire_id(),
        message_id: row.message_id,
        destination_id: row.destination_id,
        destination_url: row.destination_url.clone(),
        profile_version: state.destinations.get(&row.destination_id).map_or(0, |it| it.profile_version),
        event_type: row.event_type.clone(),
        content_type: row.content_type.clone(),
        payload: if is_inline { payload.into() } else { LeasePayload::Stored { bytes } },
        traceparent: row.traceparent.clone(),
        attempts: row.attempts,
        max_attempts: row.max_attempts,
        trigger: Trigger::for_attempt(is_requeued, row.attempts),
        overdue: row.next_attempt_at.map_or(Duration::ZERO, |due| now.since(due)),
    }
}

/// Returns the payload of a leased event, or none if the lease was lost.
pub(crate) fn read_payload(state: &mut State, lease: LeaseRef) -> Option<Bytes> {
    state.find_leased(lease.key, lease.token)?;
    Some(state.payload(&state.rows[&lease.key]))
}

/// Renews leases and returns the lost ones. The owner of an expired lease can renew it until another claim takes it
/// over.
pub(crate) fn renew(
    state: &mut State,
    now: Timestamp,
    leases: &[LeaseRef],
    lease: Duration,
) -> Vec<LeaseRef> {
    let mut lost = Vec::new();
    for lease_ref in leases {
        match state.find_leased(lease_ref.key, lease_ref.token).and_then(|row| row.lease.as_mut()) {
            Some(granted) => (granted.until, granted.duration) = (now.after(lease), lease),
            None => lost.push(*lease_ref),
        }
    }
    lost
}

/// Ends leases without recording an attempt. Ignores leases that the caller has lost.
pub(crate) fn release(state: &mut State, now: Timestamp, leases: &[LeaseRef]) {
    for lease_ref in leases {
        if let Some(row) = state.find_leased(lease_ref.key, lease_ref.token) {
            row.lease = None;
            // The event was due when it was leased, also if the clock has stepped back since.
            row.next_attempt_at = row.next_attempt_at.map(|due| due.min(now));
            row.updated_at = now;
        }
    }
}
