//! What a claim may grant.

use std::collections::BTreeMap;
use std::sync::Arc;

use posthaste_domain::{DeliveryStatus, DestinationId, EventKey, FailureKind, Timestamp};
use posthaste_store::{ClaimRequest, Claimed};
use posthaste_store_memory::{Row, State};

use super::{Finding, Known, hold};
use crate::incarnation::Incarnation;

/// P6: a token is granted once.
pub(super) fn remember(known: &mut Known, by: &Arc<Incarnation>, claimed: &Claimed) -> Finding {
    for lease in &claimed.leases {
        let fresh = known.holders.insert(lease.token, Arc::clone(by)).is_none();
        hold!("P6", fresh, "token {} was granted twice", lease.token);
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "a rule over all that is known of one step")]
pub(super) fn lawful(
    request: &ClaimRequest,
    claimed: &Claimed,
    key: EventKey,
    before: &Row,
    after: &Row,
    known: &Known,
    state: &State,
    now: Timestamp,
) -> Finding {
    limits(request, claimed, state, now)?;
    let expired = before.lease.as_ref().is_some_and(|lease| lease.until <= now);
    hold!("P7", before.lease.is_none() || expired, "{} was claimed from under a live lease", after.event_id);
    if expired {
        excused(before, known, request)?;
    }
    if after.status == DeliveryStatus::Failed {
        return abandoned(request, before, after);
    }
    let granted = claimed.leases.iter().find(|lease| lease.key == key);
    let Some(granted) = granted else {
        return Err(("P7", format!("{} was changed by a claim that did not grant it", after.event_id)));
    };
    let due = before.next_attempt_at.is_some_and(|due| due <= now);
    hold!("P7", due, "{} was claimed before it was due", after.event_id);
    hold!("P10", after.attempts == before.attempts, "a claim counted an attempt of {}", after.event_id);
    hold!("P8", after.claims == before.claims + 1, "a claim of {} was not counted", after.event_id);
    let lease = after.lease.as_ref().map(|lease| (lease.token, lease.until));
    let expected = Some((granted.token, now.after(request.lease)));
    hold!("P4", lease == expected, "the lease of {} is not the one granted", after.event_id);
    Ok(())
}

/// A claim takes what was asked for and no more.
fn limits(request: &ClaimRequest, claimed: &Claimed, state: &State, now: Timestamp) -> Finding {
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
        hold!("claim limits", !state.is_paused(destination, now), "destination {destination} is paused");
    }
    Ok(())
}

/// P9, heartbeats: a lease is lost only through a fault. If nothing has befallen its holder since it was last
/// renewed, the engine failed to renew it.
fn excused(before: &Row, known: &Known, request: &ClaimRequest) -> Finding {
    let Some(lease) = &before.lease else { return Ok(()) };
    let Some(holder) = known.holders.get(&lease.token) else {
        return Err(("P6", format!("{} is held under a token that was never granted", before.event_id)));
    };
    let renewed_at = lease.until.before(request.lease);
    hold!(
        "heartbeat",
        holder.is_excused_since(renewed_at),
        "{} lost its lease, but nothing had befallen {}",
        before.event_id,
        holder.worker_id
    );
    Ok(())
}

/// P10: given up only at the bound.
fn abandoned(request: &ClaimRequest, before: &Row, after: &Row) -> Finding {
    let at_the_bound = before.lost_leases + 1 >= request.abandon_after;
    let named = after.failure_kind == Some(FailureKind::Abandoned);
    hold!("P10", at_the_bound && named, "{} was given up after {}", after.event_id, before.lost_leases + 1);
    hold!(
        "P10",
        after.attempts == before.attempts,
        "a lost lease counted as an attempt of {}",
        after.event_id
    );
    Ok(())
}
