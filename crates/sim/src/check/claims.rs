//! Checks of claims: which leases a claim may grant, and which events it may abandon.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use posthaste_domain::{
    DeliveryStatus, DestinationId, EventKey, FailureKind, Lease, LeasePayload, Timestamp,
};
use posthaste_store::{ClaimRequest, ClaimResponse, Receiver};
use posthaste_store_memory::{GrantedLease, Row};

use super::{CheckResult, Model, require};
use crate::process::Process;

/// Records granted tokens. P6: a token is granted once; only a repetition of the claim that granted it may return it
/// again.
pub(super) fn record_tokens(model: &mut Model, process: &Arc<Process>, leases: &[Lease]) -> CheckResult {
    for lease in leases {
        match model.holders.insert(lease.token, Arc::clone(process)) {
            None => {}
            Some(holder) if Arc::ptr_eq(&holder, process) && is_held(model, lease) => {
                model.counts.replayed_claims += 1;
            }
            Some(_) => return Err(("P6", format!("token {} was granted twice", lease.token))),
        }
    }
    Ok(())
}

fn is_held(model: &Model, lease: &Lease) -> bool {
    let granted = model.rows.get(&lease.key).and_then(|row| row.lease.as_ref());
    granted.is_some_and(|granted| granted.token == lease.token)
}

/// A claim, its response and its time.
pub(super) struct Claim<'a> {
    pub(super) request: &'a ClaimRequest,
    pub(super) response: &'a ClaimResponse,
    pub(super) now: Timestamp,
}

/// Checks the change that a claim made to one row.
pub(super) fn check_claimed_row(
    claim: &Claim<'_>,
    key: EventKey,
    before: &Row,
    after: &Row,
    model: &Model,
) -> CheckResult {
    let Claim { request, response, now } = *claim;
    if after.status == DeliveryStatus::Failed {
        return check_abandoned(claim, key, before, after, model);
    }
    let was_granted_before = before.lease.as_ref().is_some_and(|granted| granted.claim == request.id);
    if was_granted_before && after.lease.is_none() {
        // P16: a repeated claim releases leases whose payloads do not fit.
        // The event was due when it was leased, also if the clock has stepped back since.
        let next_attempt_at = before.next_attempt_at.map(|due| due.min(now));
        let expected = Row { lease: None, next_attempt_at, updated_at: now, ..before.clone() };
        require!("P8", *after == expected, "a repeated claim changed {before:?} to {after:?}");
        require!("P16", response.is_limited_by_bytes, "{} was released without a reason", after.event_id);
        return Ok(());
    }
    let Some(lease) = response.leases.iter().find(|lease| lease.key == key) else {
        return Err(("P7", format!("{} was changed by a claim that did not grant it", after.event_id)));
    };
    require!("P10", after.attempts == before.attempts, "a claim counted an attempt of {}", after.event_id);
    check_lease_matches_row(lease, after, model)?;
    let until = now.after(request.lease);
    if let Some(granted) = before.lease.as_ref().filter(|granted| granted.claim == request.id) {
        let extended = GrantedLease { until, duration: request.lease, ..granted.clone() };
        let expected = Row { lease: Some(extended), ..before.clone() };
        require!("P8", *after == expected, "a repeated claim changed {before:?} to {after:?}");
        return Ok(());
    }
    check_limits(claim, model)?;
    let expired = before.lease.as_ref().is_some_and(|granted| granted.until <= now);
    require!(
        "P7",
        before.lease.is_none() || expired,
        "{} was claimed although its lease is live",
        after.event_id
    );
    if expired {
        check_loss_is_excused(before, model, request)?;
    }
    // An event with an expired lease was due when it was leased, also if the clock has stepped back since.
    let due = expired || before.next_attempt_at.is_some_and(|due| due <= now);
    require!("P7", due, "{} was claimed before it was due", after.event_id);
    let (token, owner) = (lease.token, request.owner.clone());
    let granted = GrantedLease { claim: request.id, token, owner, until, duration: request.lease };
    let expected = Row {
        claims: before.claims + 1,
        lost_leases: before.lost_leases + u32::from(expired),
        lease: Some(granted),
        updated_at: now,
        ..before.clone()
    };
    require!("P8", *after == expected, "a claim changed {before:?} to {after:?}");
    Ok(())
}

/// P3: the lease carries the stored event.
pub(super) fn check_lease_matches_row(lease: &Lease, row: &Row, model: &Model) -> CheckResult {
    let same = lease.event_id == row.event_id
        && is_payload_of(lease, model.payload_of(row))
        && lease.destination_url == row.destination_url
        && lease.destination_id == row.destination_id
        && (lease.attempts, lease.max_attempts) == (row.attempts, row.max_attempts);
    require!("P3", same, "the lease {lease:?} does not match the row {row:?}");
    Ok(())
}

/// Returns whether a lease has this payload, or its size.
fn is_payload_of(lease: &Lease, stored: &Bytes) -> bool {
    match &lease.payload {
        LeasePayload::Loaded(payload) => payload == stored,
        LeasePayload::Stored { bytes } => *bytes == stored.len(),
    }
}

/// Checks that a claim stays within the limits of its request, and grants nothing for paused destinations.
fn check_limits(claim: &Claim<'_>, model: &Model) -> CheckResult {
    let Claim { request, response, now } = *claim;
    let retries = response.leases.iter().filter(|lease| lease.is_retry()).count();
    require!("claim limits", response.leases.len() <= request.limit, "more leases than the limit");
    require!("claim limits", retries <= request.retries_max, "more retries than the limit");
    let sizes = || response.leases.iter().map(|lease| lease.payload.len());
    let (bytes, largest) = (sizes().sum::<usize>(), sizes().max().unwrap_or(0));
    let event_bytes_max = request.event_payload_bytes_max.unwrap_or(usize::MAX);
    require!("P16", bytes - largest <= request.payload_bytes_max, "more payload bytes than the limit");
    require!("P16", largest <= event_bytes_max, "a larger payload than the limit");
    let inline_bytes_max = request.inline_payload_bytes_max;
    let is_inline = |lease: &Lease| lease.payload.is_stored() == (lease.payload.len() > inline_bytes_max);
    require!("P16", response.leases.iter().all(is_inline), "a response has other payloads than requested");
    let mut taken: BTreeMap<(DestinationId, &str), usize> = BTreeMap::new();
    for lease in &response.leases {
        *taken.entry((lease.destination_id, lease.destination_url.origin())).or_default() += 1;
    }
    for ((destination, host), count) in taken {
        let slots = request.slots.of(Receiver { destination, host, is_failing: false });
        let free = slots.destination.min(slots.host);
        require!(
            "claim limits",
            count <= free,
            "{count} leases for {free} slots of destination {destination}"
        );
        let paused = model.paused_until(destination).is_some_and(|until| until > now);
        require!("pause", !paused, "destination {destination} is paused");
    }
    Ok(())
}

/// Checks that a fault explains the loss of a lease. If no fault lasted until shortly before the expiry, the engine
/// failed to renew the lease.
fn check_loss_is_excused(before: &Row, model: &Model, request: &ClaimRequest) -> CheckResult {
    let Some(lease) = &before.lease else { return Ok(()) };
    let Some(holder) = model.holders.get(&lease.token) else {
        return Err(("P6", format!("{} is held under a token that was never granted", before.event_id)));
    };
    let excused = holder.loss_is_excused(lease.token, lease.until, request.lease);
    let (event_id, worker_id) = (&before.event_id, &holder.worker_id);
    require!("heartbeat", excused, "{event_id} lost its lease, but no fault had affected {worker_id}");
    Ok(())
}

/// P10: an event is abandoned exactly when it reaches the limit of lost leases, and for no other reason.
fn check_abandoned(
    claim: &Claim<'_>,
    key: EventKey,
    before: &Row,
    after: &Row,
    model: &Model,
) -> CheckResult {
    let Claim { request, response, now } = *claim;
    let expired = before.lease.as_ref().is_some_and(|granted| granted.until <= now);
    require!("P7", expired, "{} was abandoned without an expired lease", after.event_id);
    check_loss_is_excused(before, model, request)?;
    let lost = model.accounts.get(&key).map_or(0, |account| account.lost_in_a_row) + 1;
    require!(
        "P10",
        lost == request.abandon_after,
        "{} was abandoned after {lost} lost leases",
        after.event_id
    );
    require!(
        "P10",
        response.abandoned.contains(&after.event_id),
        "{} was abandoned, but the response does not name it",
        after.event_id
    );
    let expected = Row {
        status: DeliveryStatus::Failed,
        failure_kind: Some(FailureKind::Abandoned),
        lost_leases: lost,
        next_attempt_at: None,
        lease: None,
        last_error: after.last_error.clone(),
        updated_at: now,
        ..before.clone()
    };
    require!("P10", *after == expected, "abandoning changed {before:?} to {after:?}");
    Ok(())
}
