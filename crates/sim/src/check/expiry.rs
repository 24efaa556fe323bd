//! Checks of expiry: which events may expire, and that every event ends in time.

use std::sync::Arc;
use std::time::Duration;

use posthaste_domain::{DeliveryStatus, FailureKind, Timestamp};
use posthaste_store::{ExpireRequest, ExpireResponse};
use posthaste_store_memory::Row;

use super::{CheckResult, Checker, require};
use crate::process::Process;

/// How long a worker without faults may take for a walk over the pending events, with the pause before it.
const WALK_TIME_MAX: Duration = Duration::from_secs(90);

/// P18: an event expires when its time has passed since it was enqueued or requeued, unless it is in flight. Nothing else
/// of the event changes.
pub(super) fn check_expired(
    request: &ExpireRequest,
    response: &ExpireResponse,
    before: &Row,
    after: &Row,
    now: Timestamp,
) -> CheckResult {
    let event_id = &after.event_id;
    let age = now.since(before.enqueued_at());
    require!(
        "P18",
        age >= request.expire_after,
        "{event_id} expired {age:?} after it was enqueued or requeued"
    );
    let is_in_flight = before.lease.as_ref().is_some_and(|lease| lease.until > now);
    require!("P18", !is_in_flight, "{event_id} expired under a live lease");
    require!(
        "P18",
        response.expired.contains(event_id),
        "{event_id} expired, but the response does not name it"
    );
    let expected = Row {
        status: DeliveryStatus::Failed,
        failure_kind: Some(FailureKind::Expired),
        next_attempt_at: None,
        lease: None,
        last_error: after.last_error.clone(),
        updated_at: now,
        ..before.clone()
    };
    require!("P18", *after == expected, "an expiry changed {before:?} to {after:?}");
    let keeps_error = before.last_error.as_ref().is_none_or(|error| {
        after.last_error.as_ref().is_some_and(|expired| expired.ends_with(error.as_str()))
    });
    require!("P18", keeps_error, "the expiry of {event_id} does not name its last error: {after:?}");
    Ok(())
}

impl Checker {
    /// P18: while a worker has run without faults for long enough to walk over the pending events, no event is pending
    /// past its time unless it is in flight.
    pub(crate) fn check_expiry(&self, faults_ended_at: Timestamp, processes: &[Arc<Process>]) {
        let Some(expire_after) = self.scenario.settings.expire_after else { return };
        let now = self.clock.timestamp();
        let walking_since = now.before(WALK_TIME_MAX);
        let has_walked = |process: &Arc<Process>| {
            faults_ended_at <= walking_since && process.is_undisturbed_since(walking_since)
        };
        if !processes.iter().any(has_walked) {
            return;
        }
        let model = self.model();
        let result = (|| {
            for row in model.rows.values().filter(|row| row.status == DeliveryStatus::Pending) {
                // A walk may have found the event in flight.
                let lease_until = row.lease.as_ref().map(|lease| lease.until);
                let was_in_flight = lease_until.max(Some(row.updated_at)) > Some(walking_since);
                let overdue = now.since(row.enqueued_at()).saturating_sub(expire_after);
                require!(
                    "P18",
                    was_in_flight || overdue <= WALK_TIME_MAX,
                    "{} is still pending {overdue:?} after it should have expired",
                    row.event_id
                );
            }
            Ok(())
        })();
        self.record_result(model, result);
    }
}
