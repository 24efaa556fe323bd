//! What a claim may grant.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_domain::{DeliveryStatus, DestinationId, EventKey, FailureKind, Lease, Timestamp};
use posthaste_store::{ClaimRequest, Claimed};
use posthaste_store_memory::{GrantedLease, Row};

use super::{Finding, Known, hold};
use crate::incarnation::Incarnation;

/// P6: a token is granted once. Only the claim that it was granted by may bring it again.
pub(super) fn remember(known: &mut Known, by: &Arc<Incarnation>, claimed: &Claimed) -> Finding {
    for lease in &claimed.leases {
        match known.holders.insert(lease.token, Arc::clone(by)) {
            None => {}
            Some(holder) if Arc::ptr_eq(&holder, by) && is_held(known, lease) => {
                known.counts.replayed_claims += 1;
            }
            Some(_) => return Err(("P6", format!("token {} was granted twice", lease.token))),
        }
    }
    Ok(())
}

fn is_held(known: &Known, lease: &Lease) -> bool {
    let granted = known.rows.get(&lease.key).and_then(|row| row.lease.as_ref());
    granted.is_some_and(|granted| granted.token == lease.token)
}

/// A claim and the moment it was made.
pub(super) struct Claim<'a> {
    pub(super) request: &'a ClaimRequest,
    pub(super) claimed: &'a Claimed,
    pub(super) now: Timestamp,
}

pub(super) fn lawful(claim: &Claim<'_>, key: EventKey, before: &Row, after: &Row, known: &Known) -> Finding {
    let Claim { request, claimed, now } = *claim;
    if after.status == DeliveryStatus::Failed {
        return abandoned(claim, key, before, after, known);
    }
    let Some(lease) = claimed.leases.iter().find(|lease| lease.key == key) else {
        return Err(("P7", format!("{} was changed by a claim that did not grant it", after.event_id)));
    };
    hold!("P10", after.attempts == before.attempts, "a claim counted an attempt of {}", after.event_id);
    true_to_the_row(lease, after)?;
    let until = now.after(request.lease);
    if let Some(granted) = before.lease.as_ref().filter(|granted| granted.claim == request.id) {
        let expected = Row { lease: Some(GrantedLease { until, ..granted.clone() }), ..before.clone() };
        hold!("P8", *after == expected, "a claim asked again made {after:?} of {before:?}");
        return Ok(());
    }
    limits(claim, known)?;
    let expired = before.lease.as_ref().is_some_and(|granted| granted.until <= now);
    hold!("P7", before.lease.is_none() || expired, "{} was claimed from under a live lease", after.event_id);
    if expired {
        excused(before, known, request)?;
    }
    let due = before.next_attempt_at.is_some_and(|due| due <= now);
    hold!("P7", due, "{} was claimed before it was due", after.event_id);
    let granted = GrantedLease { claim: request.id, token: lease.token, owner: request.owner.clone(), until };
    let expected = Row {
        claims: before.claims + 1,
        lost_leases: before.lost_leases + u32::from(expired),
        lease: Some(granted),
        updated_at: now,
        ..before.clone()
    };
    hold!("P8", *after == expected, "a claim made {after:?} of {before:?}");
    Ok(())
}

/// What is sent is what was stored.
fn true_to_the_row(lease: &Lease, row: &Row) -> Finding {
    let same = lease.event_id == row.event_id
        && lease.payload == row.payload
        && lease.destination_url == row.destination_url
        && lease.destination_id == row.destination_id
        && (lease.attempts, lease.max_attempts) == (row.attempts, row.max_attempts);
    hold!("P3", same, "{lease:?} was granted for {row:?}");
    Ok(())
}

/// A claim takes what was asked for and no more, and nothing for those who asked to be left alone.
fn limits(claim: &Claim<'_>, known: &Known) -> Finding {
    let Claim { request, claimed, now } = *claim;
    let retries = claimed.leases.iter().filter(|lease| lease.is_retry()).count();
    hold!("claim limits", claimed.leases.len() <= request.limit, "more leases than free slots");
    hold!("claim limits", retries <= request.retries_max, "more retries than the retry batch");
    let mut taken: BTreeMap<DestinationId, usize> = BTreeMap::new();
    for lease in &claimed.leases {
        *taken.entry(lease.destination_id).or_default() += 1;
    }
    for (destination, count) in taken {
        let free = request.free_slots_of(destination);
        hold!("claim limits", count <= free, "{count} leases for {free} slots of destination {destination}");
        let paused = known.paused.get(&destination).is_some_and(|until| *until > now);
        hold!("pause", !paused, "destination {destination} asked to be left alone");
    }
    Ok(())
}

/// A lease is lost only through a fault: if none lasted until shortly before its expiry, the engine failed to renew
/// it.
fn excused(before: &Row, known: &Known, request: &ClaimRequest) -> Finding {
    let Some(lease) = &before.lease else { return Ok(()) };
    let Some(holder) = known.holders.get(&lease.token) else {
        return Err(("P6", format!("{} is held under a token that was never granted", before.event_id)));
    };
    let excused = holder.is_excused_for(lease.token, lease.until, request.lease);
    let (event_id, worker_id) = (&before.event_id, &holder.worker_id);
    hold!("heartbeat", excused, "{event_id} lost its lease, but nothing had befallen {worker_id}");
    Ok(())
}

/// P10: given up exactly at the bound, and not for anything but lost leases.
fn abandoned(claim: &Claim<'_>, key: EventKey, before: &Row, after: &Row, known: &Known) -> Finding {
    let Claim { request, claimed, now } = *claim;
    let expired = before.lease.as_ref().is_some_and(|granted| granted.until <= now);
    hold!("P7", expired, "{} was given up without an expired lease", after.event_id);
    excused(before, known, request)?;
    let lost = known.accounts.get(&key).map_or(0, |account| account.lost_in_a_row) + 1;
    hold!("P10", lost == request.abandon_after, "{} was given up after {lost} lost leases", after.event_id);
    hold!("P10", claimed.abandoned.contains(&after.event_id), "{} was given up silently", after.event_id);
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
    hold!("P10", *after == expected, "giving up made {after:?} of {before:?}");
    Ok(())
}
