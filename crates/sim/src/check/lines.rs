//! Checks of FIFO endpoints: their events are sent one at a time, in the order in which their messages were committed.

use posthaste_domain::{DeliveryStatus, DestinationId, EventKey, Lease, Timestamp};
use posthaste_store_memory::{Row, State};

use super::step::Change;
use super::{CheckResult, Model, require};

/// A line has at most one leased event. A claim grants the event whose lease has expired, or else the first pending event.
pub(super) fn check_leases(granted: &[&Change<'_>], model: &mut Model, state: &State) -> CheckResult {
    for change in granted {
        let (key, row) = (change.key, change.after);
        if !model.registry.is_fifo(row.destination_id) {
            continue;
        }
        model.counts.registry.fifo_leases += 1;
        let others = || state.rows.iter().filter(|(other, it)| **other != key && is_pending_in_line(it, row));
        let leased = others().find(|(_, it)| it.lease.is_some());
        require!(
            "fifo",
            leased.is_none(),
            "{} was leased while {leased:?} of its line is leased",
            row.event_id
        );
        let is_takeover = change.before.as_ref().is_some_and(|before| before.lease.is_some());
        let earlier = others().find(|(other, _)| **other < key);
        require!(
            "fifo",
            is_takeover || earlier.is_none(),
            "{} was leased before {earlier:?} of its line has ended",
            row.event_id
        );
    }
    Ok(())
}

/// The first request for an event of a line comes after the events before it have ended. An event that a client reopened
/// later returns to its old position, and the request may be under way by then.
pub(super) fn check_request(lease: &Lease, is_first: bool, model: &Model) -> CheckResult {
    if !is_first || !model.registry.is_fifo(lease.destination_id) {
        return Ok(());
    }
    let is_waiting = |row: &Row| {
        let was_reopened = row.manual_last.as_ref().is_some_and(|last| last.action.restarts());
        row.destination_id == lease.destination_id && row.status == DeliveryStatus::Pending && !was_reopened
    };
    let earlier = model.rows.range(..lease.key).find(|(_, row)| is_waiting(row));
    require!(
        "fifo",
        earlier.is_none(),
        "{} was sent before {earlier:?} of its line has ended",
        lease.event_id
    );
    Ok(())
}

fn is_pending_in_line(row: &Row, of: &Row) -> bool {
    row.destination_id == of.destination_id && row.status == DeliveryStatus::Pending
}

impl Model {
    /// Returns whether an event waits behind another one of its line.
    pub(super) fn waits_in_line(&self, key: EventKey, row: &Row) -> bool {
        let is_before = |(other, it): (&EventKey, &Row)| {
            is_pending_in_line(it, row) && *other != key && (*other < key || it.lease.is_some())
        };
        self.registry.is_fifo(row.destination_id) && row.lease.is_none() && self.rows.iter().any(is_before)
    }

    /// Returns when an event of a line last changed. Its successor cannot be claimed before. None if the destination is no
    /// FIFO endpoint.
    pub(super) fn line_moved_at(&self, destination: DestinationId) -> Option<Timestamp> {
        let line = self.rows.values().filter(|row| row.destination_id == destination);
        self.registry.is_fifo(destination).then(|| line.map(|row| row.updated_at).max()).flatten()
    }
}
