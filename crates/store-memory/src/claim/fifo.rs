//! Lines: destinations in FIFO order get one event at a time.

use posthaste_domain::{DeliveryOrder, DeliveryStatus, EventKey, Timestamp};

use crate::state::{Row, State};

/// Returns whether the order of its destination lets a claim grant an event that is ready. In FIFO order, only the head of the
/// line may be granted.
pub(super) fn may_claim(state: &State, now: Timestamp, key: EventKey, row: &Row) -> bool {
    let endpoint = state.destinations.get(&row.destination_id).and_then(|it| it.endpoint.as_ref());
    let is_fifo = endpoint.is_some_and(|endpoint| endpoint.order == DeliveryOrder::Fifo);
    !is_fifo || head(state, now, row) == Some(key)
}

/// Returns the head of the line of an event's destination: the first event whose lease has expired, or else the first pending
/// event. There is none while an event of the line is under a live lease.
fn head(state: &State, now: Timestamp, of: &Row) -> Option<EventKey> {
    let is_in_line =
        |row: &Row| row.destination_id == of.destination_id && row.status == DeliveryStatus::Pending;
    let line = || state.rows.iter().filter(|(_, row)| is_in_line(row));
    let leased = || line().filter_map(|(key, row)| Some((*key, row.lease.as_ref()?)));
    if leased().any(|(_, lease)| !lease.is_expired(now)) {
        return None;
    }
    let expired = leased().map(|(key, _)| key).next();
    expired.or_else(|| line().map(|(key, _)| *key).next())
}
