//! Why an event is where it is and what happens next, in words. Pure: everything that it says was read from a store,
//! whose clock is the only one that knows what is due.

use posthaste_domain::{DeliveryStatus, FailureKind};
use posthaste_store::{CircuitState, DestinationState, EventView, ManualAction};

use crate::moment::Moment;

pub(crate) fn explain(event: &EventView, destination: Option<&DestinationState>) -> String {
    match event.status {
        DeliveryStatus::Delivered => delivered(event),
        DeliveryStatus::Failed => failed(event),
        DeliveryStatus::Pending => match (&event.lease_owner, event.lease_until) {
            (Some(owner), Some(until)) => format!(
                "Attempt {} of {} is being made by worker {owner}, under a lease until {}; if that passes without a \
                 result, another worker takes over.",
                event.attempts.saturating_add(1),
                event.max_attempts,
                Moment(until)
            ),
            _ => format!("{}{}", waiting(event), held(event, destination)),
        },
    }
}

fn delivered(event: &EventView) -> String {
    let at = Moment(event.delivered_at.unwrap_or(event.updated_at));
    format!("Delivered at {at}, on attempt {} of {}.", event.attempts, event.max_attempts)
}

fn failed(event: &EventView) -> String {
    let at = Moment(event.updated_at);
    let error = event.last_error.as_deref().unwrap_or("no error was recorded");
    match event.failure_kind {
        Some(FailureKind::Cancelled) => {
            let by = event.manual_last.as_ref().filter(|last| last.action == ManualAction::Cancel);
            let by = by.map(|last| format!(" by {}", last.actor)).unwrap_or_default();
            let reason = error.strip_prefix("manual_cancelled: ");
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("Cancelled{by} at {at}{reason}, after {}. A requeue sends it again.", made(event))
        }
        Some(FailureKind::Gone) => format!(
            "Dead-lettered at {at}: the receiver answered that it is gone for good ({error}). A requeue tries once more."
        ),
        Some(FailureKind::Abandoned) => format!(
            "Dead-lettered at {at}: its workers went away again and again without a result ({error}). It may be what takes \
             them down; a requeue tries again."
        ),
        Some(FailureKind::Exhausted) | None => {
            format!(
                "Dead-lettered at {at} after {}; the last error was: {error}. A requeue starts over.",
                made(event)
            )
        }
    }
}

fn made(event: &EventView) -> String {
    match event.attempts {
        1 => "1 attempt".to_owned(),
        attempts => format!("{attempts} attempts"),
    }
}

/// What it waits for by itself.
fn waiting(event: &EventView) -> String {
    let due = event.next_attempt_at.map_or_else(|| "now".to_owned(), |at| format!("at {}", Moment(at)));
    let requeued = event.manual_last.as_ref().filter(|last| last.action == ManualAction::Requeue);
    let lost = match event.lost_leases {
        0 => String::new(),
        1 => " Its last lease expired without a result.".to_owned(),
        lost => format!(" Its last {lost} leases expired without a result."),
    };
    let what = match (event.attempts, requeued) {
        (0, Some(last)) => format!(
            "Requeued by {} at {}; waiting for its first attempt since, due {due}.",
            last.actor,
            Moment(last.at)
        ),
        (0, None) => format!("Waiting for its first attempt, due {due}."),
        (attempts, _) => format!(
            "Retry {attempts} of {} is due {due}, after {}.",
            event.max_attempts.saturating_sub(1),
            event.last_error.as_deref().unwrap_or("an attempt whose error was not recorded")
        ),
    };
    what + &lost
}

/// What its destination makes it wait for besides.
fn held(event: &EventView, destination: Option<&DestinationState>) -> String {
    let Some(destination) = destination else { return String::new() };
    let mut reasons = Vec::new();
    if let Some(until) = destination.paused_until.filter(|until| Some(*until) > event.next_attempt_at) {
        reasons.push(format!("the destination asked for a pause until {}", Moment(until)));
    }
    match destination.circuit {
        CircuitState::Closed => {}
        CircuitState::Open => {
            reasons.push("the destination's circuit is open after repeated failures".to_owned());
        }
        CircuitState::HalfOpen => {
            reasons.push(
                "the destination's circuit lets single requests through to see whether it has recovered"
                    .to_owned(),
            );
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let since =
        destination.failing_since.map(|at| format!(" Failing since {}.", Moment(at))).unwrap_or_default();
    format!(" Held because {}; this uses up no attempts.{since}", reasons.join(", and "))
}
