//! Lines of endpoints in FIFO order: a claim may grant the head alone.

use posthaste_domain::{DeliveryOrder, DeliveryStatus, EventKey, Timestamp};
use posthaste_store::ClaimRequest;
use posthaste_store_memory::{Row, State};

use super::choice::is_abandoned;

/// Returns whether an event waits for another one of its line: the event is not the head, or the line has a live lease. Events
/// that the claim abandons are not in the line any more.
pub(super) fn is_behind_its_head(
    state: &State,
    now: Timestamp,
    request: &ClaimRequest,
    key: EventKey,
    row: &Row,
) -> bool {
    let endpoint = state.destinations.get(&row.destination_id).and_then(|it| it.endpoint.as_ref());
    if endpoint.is_none_or(|endpoint| endpoint.order != DeliveryOrder::Fifo) {
        return false;
    }
    let line: Vec<(EventKey, &Row)> = state
        .rows
        .iter()
        .filter(|(_, other)| other.destination_id == row.destination_id)
        .filter(|(_, other)| other.status == DeliveryStatus::Pending && !is_abandoned(other, now, request))
        .map(|(key, other)| (*key, other))
        .collect();
    let mut leases = line.iter().filter_map(|(_, row)| row.lease.as_ref());
    let has_live_lease = leases.any(|lease| !lease.is_expired(now));
    // The keys ascend. An event whose lease has expired precedes the others.
    let head = line.iter().find(|(_, row)| row.lease.is_some()).or_else(|| line.first());
    has_live_lease || head.is_none_or(|(head, _)| *head != key)
}
