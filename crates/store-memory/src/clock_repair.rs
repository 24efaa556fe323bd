//! Repairs times that lie too far ahead, because the clock has stepped back since they were written.
//!
//! No lease is taken over before its time: a lease that ends later than its full duration from now is shortened to end
//! then. A live worker renews its leases before that; the leases of a dead worker expire. A delay or a pause that began in
//! the future begins now. A resume in the future happened now. Circuit reports from the future are forgotten; live workers
//! repeat theirs.

use posthaste_domain::Timestamp;

use crate::state::{Destination, Row, State};

/// Repairs all times that lie too far ahead. Changes nothing unless the clock has stepped back.
pub(crate) fn repair(state: &mut State, now: Timestamp) {
    for row in state.rows.values_mut() {
        state.revision += u64::from(shorten_lease(row, now) || restart_delay(row, now));
    }
    for destination in state.destinations.values_mut() {
        repair_destination(destination, now);
    }
}

/// Shortens a lease that ends later than its full duration from now. Returns whether it did.
fn shorten_lease(row: &mut Row, now: Timestamp) -> bool {
    let Some(lease) = &mut row.lease else { return false };
    let latest_end = now.after(lease.duration);
    let is_ahead = lease.until > latest_end;
    lease.until = lease.until.min(latest_end);
    is_ahead
}

/// Restarts the delay of an event that was written later than now. Returns whether it did.
fn restart_delay(row: &mut Row, now: Timestamp) -> bool {
    let Some(due) = row.next_attempt_at.filter(|_| row.lease.is_none() && row.updated_at > now) else {
        return false;
    };
    row.next_attempt_at = Some(now.after(due.since(row.updated_at)));
    row.updated_at = now;
    true
}

fn repair_destination(destination: &mut Destination, now: Timestamp) {
    if let Some(pause) = destination.receiver_pause.as_mut().filter(|pause| pause.at > now) {
        (pause.at, pause.until) = (now, now.after(pause.until.since(pause.at)));
    }
    if let Some(pause) = destination.operator_pause.as_mut().filter(|pause| pause.at > now) {
        pause.until = pause.until.map(|until| now.after(until.since(pause.at)));
        pause.at = now;
    }
    destination.resumed_at = destination.resumed_at.map(|at| at.min(now));
    destination.circuits.retain(|_, report| report.reported_at <= now);
}
