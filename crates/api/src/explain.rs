//! Explains in a sentence why an event is in its state and what happens next. Pure: it uses only values that were read from
//! the store, and never compares with the current time, because only the store's clock decides what is due.

mod late_result;

use posthaste_domain::{DeliveryStatus, EventId, Excerpt, FailureKind, RetryPolicy};
use posthaste_store::{AuditView, DestinationStatus, EventView, ManualAction};

use crate::timestamp::Rfc3339;
pub(crate) use late_result::LateResult;

/// Explains an event's state. For a pending event, `policy` determines the limit of its attempts. For a delivered or
/// failed event only its row counts, because the policy may have changed since.
pub(crate) fn explain(
    event: &EventView,
    late_result: Option<&LateResult>,
    destination: Option<&DestinationStatus>,
    policy: &RetryPolicy,
) -> String {
    let in_flight = late_result.filter(|late| late.was_in_flight_at_cancel(event));
    if let Some(late) = in_flight {
        return explain_cancelled(event, &late.explain_in_flight());
    }
    let state = match event.status {
        DeliveryStatus::Delivered => explain_delivered(event),
        DeliveryStatus::Failed => explain_failed(event),
        DeliveryStatus::Pending => explain_pending(event, destination, policy),
    };
    state + &late_result.map(LateResult::explain).unwrap_or_default()
}

fn explain_pending(
    event: &EventView,
    destination: Option<&DestinationStatus>,
    policy: &RetryPolicy,
) -> String {
    let allowed = policy.effective_max_attempts(event.max_attempts);
    let budget_note = if allowed < event.max_attempts && event.attempts > 0 {
        let (allowed, requested) = (allowed.saturating_sub(1), event.max_attempts.saturating_sub(1));
        format!(" The retry budget now allows {allowed} of its {requested} retries.")
    } else {
        String::new()
    };
    let next = event.attempts.saturating_add(1);
    // The scheduled attempt is made even if the budget was lowered since.
    let limit = allowed.max(next);
    match (&event.lease_owner, event.lease_until) {
        (Some(owner), Some(until)) => format!(
            "Attempt {next} of {limit} is being made by worker {owner}, under a lease until {}; if that passes without a \
             result, another worker takes over.{budget_note}",
            Rfc3339(until)
        ),
        _ => format!("{}{budget_note}{}", explain_wait(event, limit), explain_hold(event, destination)),
    }
}

fn explain_delivered(event: &EventView) -> String {
    let at = Rfc3339(event.delivered_at.unwrap_or(event.updated_at));
    format!("Delivered at {at}, on attempt {} of {}.", event.attempts, event.max_attempts)
}

fn explain_failed(event: &EventView) -> String {
    let at = Rfc3339(event.updated_at);
    let error = event.last_error.as_deref().unwrap_or("no error was recorded");
    match event.failure_kind {
        Some(FailureKind::Cancelled) => explain_cancelled(event, &after_attempts(event)),
        Some(FailureKind::Gone) => format!(
            "Dead-lettered at {at}: the receiver responded that it is permanently gone ({error}). A requeue starts over."
        ),
        Some(FailureKind::Abandoned) => format!(
            "Dead-lettered at {at}: several workers in a row stopped without reporting a result ({error}). Sending this \
             event may be what crashes them. A requeue tries again."
        ),
        Some(FailureKind::Expired) => format!(
            "Dead-lettered at {at}, {}, because it had not been delivered in time ({error}). A requeue starts over, with the \
             same time to be delivered.",
            after_attempts(event)
        ),
        Some(FailureKind::Exhausted) | None => {
            // Only the retry budget can exhaust an event before it has made all of its own attempts.
            let is_exhausted = event.failure_kind.is_some();
            let budget_note = if is_exhausted && event.attempts < event.max_attempts {
                format!(" of {}, because the retry budget allowed no more", event.max_attempts)
            } else {
                String::new()
            };
            format!(
                "Dead-lettered at {at}, {}{budget_note}; the last error was: {error}. A requeue starts over.",
                after_attempts(event)
            )
        }
    }
}

/// Explains a cancel, with a phrase about what had been sent by then.
fn explain_cancelled(event: &EventView, progress: &str) -> String {
    let at = Rfc3339(event.updated_at);
    let cancel = event.manual_last.as_ref().filter(|last| last.action == ManualAction::Cancel);
    let by = cancel.map(|last| format!(" by {}", last.actor)).unwrap_or_default();
    let reason = event.last_error.as_deref().and_then(|error| error.strip_prefix("manual_cancelled: "));
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("Cancelled{by} at {at}{reason}, {progress}. A requeue sends it again.")
}

/// Explains that an event does not exist because an operator discarded it.
pub(crate) fn explain_discard(event_id: &EventId, discard: &AuditView) -> String {
    let at = Rfc3339(discard.at);
    let reason = discard.reason.as_deref().map(Excerpt::from_text);
    let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    format!("event {event_id} was discarded at {at} by {}{reason}", discard.actor)
}

/// Returns a phrase with the number of attempts: "after 2 attempts".
fn after_attempts(event: &EventView) -> String {
    match event.attempts {
        0 if event.claims == 0 => "before any attempt".to_owned(),
        // A claim may have led to a request. A requeue resets the attempts, but not the time of the last one.
        0 if event.last_attempted_at.is_none() => "before any attempt had a result".to_owned(),
        0 => "before any attempt since its requeue had a result".to_owned(),
        1 => "after 1 attempt".to_owned(),
        attempts => format!("after {attempts} attempts"),
    }
}

/// Explains which attempt the event waits for and when it is due.
fn explain_wait(event: &EventView, limit: u32) -> String {
    let due = event.next_attempt_at.map_or_else(|| "now".to_owned(), |at| format!("at {}", Rfc3339(at)));
    let requeued = event.manual_last.as_ref().filter(|last| last.action == ManualAction::Requeue);
    let lost = match event.lost_leases {
        0 => String::new(),
        1 => " Its last lease expired without a result.".to_owned(),
        lost => format!(" Its last {lost} leases expired without a result."),
    };
    let wait = match (event.attempts, requeued) {
        (0, Some(last)) => format!(
            "Requeued by {} at {}; waiting for its first attempt since, due {due}.",
            last.actor,
            Rfc3339(last.at)
        ),
        (0, None) if is_deferred(event) => {
            format!("Waiting for its first attempt, due {due}, as its producer asked.")
        }
        (0, None) => format!("Waiting for its first attempt, due {due}."),
        (attempts, _) => format!(
            "Retry {attempts} of {} is due {due}, after {}.",
            limit.saturating_sub(1),
            event.last_error.as_deref().unwrap_or("an attempt whose error was not recorded")
        ),
    };
    wait + &lost
}

/// Returns whether the producer asked for a later first attempt, and no worker has claimed the event yet.
fn is_deferred(event: &EventView) -> bool {
    event.claims == 0 && event.next_attempt_at.is_some_and(|at| at > event.created_at)
}

/// Explains why the destination delays the event beyond its due time; empty if it does not.
fn explain_hold(event: &EventView, destination: Option<&DestinationStatus>) -> String {
    let Some(destination) = destination else { return String::new() };
    let mut reasons = Vec::new();
    if let Some(pause) = &destination.operator_pause
        && pause.until.is_none_or(|until| Some(until) > event.next_attempt_at)
    {
        let reason = pause.reason.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default();
        let end = pause.until.map_or_else(|| "it is resumed".to_owned(), |until| Rfc3339(until).to_string());
        reasons.push(format!(
            "{} paused the destination at {}{reason}, until {end}",
            pause.actor,
            Rfc3339(pause.at)
        ));
    }
    if let Some(pause) = destination.receiver_pause.filter(|pause| Some(pause.until) > event.next_attempt_at)
    {
        reasons.push(format!("the destination requested a pause until {}", Rfc3339(pause.until)));
    }
    if let Some(circuit) = &destination.circuit {
        reasons.push(format!(
            "the destination's circuit breaker has been open since {} after repeated failures, with the next probe at {}",
            Rfc3339(circuit.since),
            Rfc3339(circuit.next_probe_at)
        ));
    }
    if reasons.is_empty() {
        return String::new();
    }
    let since =
        destination.failing_since.map(|at| format!(" Failing since {}.", Rfc3339(at))).unwrap_or_default();
    format!(" Held because {}; this does not use up attempts.{since}", reasons.join(", and "))
}

#[cfg(test)]
mod tests;
