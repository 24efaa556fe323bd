//! Explains in a sentence why an event is in its state and what happens next. Pure: it uses only values that were read from
//! the store, and never compares with the current time, because only the store's clock decides what is due.

use posthaste_domain::{DeliveryStatus, FailureKind, RetryPolicy};
use posthaste_store::{CircuitState, DestinationState, EventView, ManualAction};

use crate::timestamp::Rfc3339;

/// Explains an event's state. `policy` limits the attempts of a pending event. A delivered or failed event is explained from
/// its row alone, because the policy may have changed since.
pub(crate) fn explain(
    event: &EventView,
    destination: Option<&DestinationState>,
    policy: &RetryPolicy,
) -> String {
    match event.status {
        DeliveryStatus::Delivered => explain_delivered(event),
        DeliveryStatus::Failed => explain_failed(event),
        DeliveryStatus::Pending => explain_pending(event, destination, policy),
    }
}

fn explain_pending(
    event: &EventView,
    destination: Option<&DestinationState>,
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
        Some(FailureKind::Cancelled) => {
            let cancel = event.manual_last.as_ref().filter(|last| last.action == ManualAction::Cancel);
            let by = cancel.map(|last| format!(" by {}", last.actor)).unwrap_or_default();
            let reason = error.strip_prefix("manual_cancelled: ");
            let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
            format!("Cancelled{by} at {at}{reason}, {}. A requeue sends it again.", after_attempts(event))
        }
        Some(FailureKind::Gone) => format!(
            "Dead-lettered at {at}: the receiver responded that it is permanently gone ({error}). A requeue starts over."
        ),
        Some(FailureKind::Abandoned) => format!(
            "Dead-lettered at {at}: several workers in a row stopped without reporting a result ({error}). Sending this \
             event may be what crashes them. A requeue tries again."
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

/// Returns a phrase with the number of attempts: "after 2 attempts".
fn after_attempts(event: &EventView) -> String {
    match event.attempts {
        0 => "before any attempt".to_owned(),
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
        (0, None) => format!("Waiting for its first attempt, due {due}."),
        (attempts, _) => format!(
            "Retry {attempts} of {} is due {due}, after {}.",
            limit.saturating_sub(1),
            event.last_error.as_deref().unwrap_or("an attempt whose error was not recorded")
        ),
    };
    wait + &lost
}

/// Explains why the destination delays the event beyond its due time; empty if it does not.
fn explain_hold(event: &EventView, destination: Option<&DestinationState>) -> String {
    let Some(destination) = destination else { return String::new() };
    let mut reasons = Vec::new();
    if let Some(until) = destination.paused_until.filter(|until| Some(*until) > event.next_attempt_at) {
        reasons.push(format!("the destination requested a pause until {}", Rfc3339(until)));
    }
    match destination.circuit {
        CircuitState::Closed => {}
        CircuitState::Open => {
            reasons.push("the destination's circuit breaker is open after repeated failures".to_owned());
        }
        CircuitState::HalfOpen => {
            reasons.push(
                "the destination's circuit breaker is probing with single requests whether the destination has recovered"
                    .to_owned(),
            );
        }
    }
    if reasons.is_empty() {
        return String::new();
    }
    let since =
        destination.failing_since.map(|at| format!(" Failing since {}.", Rfc3339(at))).unwrap_or_default();
    format!(" Held because {}; this does not use up attempts.{since}", reasons.join(", and "))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use posthaste_domain::{
        DestinationId, DestinationUrl, EventId, EventKey, MessageId, RetryPolicySpec, Timestamp, WorkerId,
    };
    use posthaste_store::AuditView;

    use super::*;

    const NOON: Timestamp = Timestamp::from_secs(1_769_860_800);

    fn url() -> DestinationUrl {
        DestinationUrl::from_stored("https://receiver.example/hook".to_owned())
    }

    /// Explains under the default policy, whose retry budget is off.
    fn explain_default(event: &EventView, destination: Option<&DestinationState>) -> String {
        explain(event, destination, &RetryPolicy::default())
    }

    fn pending() -> EventView {
        EventView {
            key: EventKey(1),
            event_id: EventId::from_stored("order-17".to_owned()),
            message_id: MessageId::v7(NOON, [0; 10]),
            destination_id: DestinationId(1),
            destination_url: url(),
            event_type: "invoice.paid".to_owned(),
            payment_request_id: None,
            webhook_id: None,
            session_id: None,
            status: DeliveryStatus::Pending,
            failure_kind: None,
            attempts: 0,
            max_attempts: 6,
            claims: 0,
            lost_leases: 0,
            next_attempt_at: Some(NOON),
            lease_owner: None,
            lease_until: None,
            last_error: None,
            last_attempted_at: None,
            delivered_at: None,
            manual_last: None,
            created_at: NOON,
            updated_at: NOON,
        }
    }

    fn retrying() -> EventView {
        EventView { attempts: 2, last_error: Some("HTTP 503: try later".to_owned()), ..pending() }
    }

    fn failed(kind: Option<FailureKind>, attempts: u32, error: &str) -> EventView {
        let last_error = Some(error.to_owned());
        let status = DeliveryStatus::Failed;
        EventView { status, failure_kind: kind, attempts, last_error, next_attempt_at: None, ..pending() }
    }

    fn by_ops(action: ManualAction) -> Option<AuditView> {
        Some(AuditView { action, actor: "ops".to_owned(), at: NOON, reason: None })
    }

    fn healthy() -> DestinationState {
        DestinationState {
            id: DestinationId(1),
            url: url(),
            circuit: CircuitState::Closed,
            paused_until: None,
            failing_since: None,
        }
    }

    #[test]
    fn a_pending_event_is_explained_by_its_next_attempt() {
        let lease_owner = Some(WorkerId::new("web-1").unwrap());
        let cases = [
            (pending(), "Waiting for its first attempt, due at 2026-01-31T12:00:00.000000Z."),
            (retrying(), "Retry 2 of 5 is due at 2026-01-31T12:00:00.000000Z, after HTTP 503: try later."),
            (
                EventView { manual_last: by_ops(ManualAction::Requeue), ..pending() },
                "Requeued by ops at 2026-01-31T12:00:00.000000Z; waiting for its first attempt since, due at \
                 2026-01-31T12:00:00.000000Z.",
            ),
            (
                EventView { lost_leases: 1, ..pending() },
                "Waiting for its first attempt, due at 2026-01-31T12:00:00.000000Z. Its last lease expired without a \
                 result.",
            ),
            (
                EventView { lost_leases: 3, ..retrying() },
                "Retry 2 of 5 is due at 2026-01-31T12:00:00.000000Z, after HTTP 503: try later. Its last 3 leases expired \
                 without a result.",
            ),
            (
                EventView { lease_owner, lease_until: Some(NOON), ..retrying() },
                "Attempt 3 of 6 is being made by worker web-1, under a lease until 2026-01-31T12:00:00.000000Z; if that \
                 passes without a result, another worker takes over.",
            ),
        ];
        for (event, expected) in cases {
            assert_eq!(explain_default(&event, Some(&healthy())), expected);
            assert_eq!(explain_default(&event, None), expected);
        }
    }

    #[test]
    fn a_held_event_is_explained_by_its_destination() {
        let later = NOON.after(Duration::from_secs(60));
        let paused = DestinationState { paused_until: Some(later), ..healthy() };
        let open = DestinationState { circuit: CircuitState::Open, failing_since: Some(NOON), ..healthy() };
        let both = DestinationState { circuit: CircuitState::HalfOpen, ..paused.clone() };
        let due = "Waiting for its first attempt, due at 2026-01-31T12:00:00.000000Z.";
        let cases = [
            (
                &paused,
                " Held because the destination requested a pause until 2026-01-31T12:01:00.000000Z; this does not use up \
                 attempts.",
            ),
            (
                &open,
                " Held because the destination's circuit breaker is open after repeated failures; this does not use up attempts. \
                 Failing since 2026-01-31T12:00:00.000000Z.",
            ),
            (
                &both,
                " Held because the destination requested a pause until 2026-01-31T12:01:00.000000Z, and the destination's \
                 circuit breaker is probing with single requests whether the destination has recovered; this does not use \
                 up attempts.",
            ),
        ];
        for (destination, held) in cases {
            assert_eq!(explain_default(&pending(), Some(destination)), format!("{due}{held}"));
        }
        let after_the_pause = EventView { next_attempt_at: Some(later), ..pending() };
        assert!(
            !explain_default(&after_the_pause, Some(&paused)).contains("Held"),
            "the pause ends before the event is due"
        );
    }

    #[test]
    fn a_delivered_or_failed_event_is_explained_by_its_last_attempt() {
        let at = "2026-01-31T12:00:00.000000Z";
        let delivered = EventView {
            status: DeliveryStatus::Delivered,
            attempts: 1,
            delivered_at: Some(NOON),
            next_attempt_at: None,
            ..pending()
        };
        let cancelled = failed(Some(FailureKind::Cancelled), 2, "manual_cancelled: wrong customer");
        let cases = [
            (delivered, format!("Delivered at {at}, on attempt 1 of 6.")),
            (
                failed(Some(FailureKind::Exhausted), 6, "HTTP 500"),
                format!(
                    "Dead-lettered at {at}, after 6 attempts; the last error was: HTTP 500. A requeue starts over."
                ),
            ),
            (
                failed(None, 1, "HTTP 500"),
                format!(
                    "Dead-lettered at {at}, after 1 attempt; the last error was: HTTP 500. A requeue starts over."
                ),
            ),
            (
                failed(Some(FailureKind::Gone), 1, "HTTP 410"),
                format!(
                    "Dead-lettered at {at}: the receiver responded that it is permanently gone (HTTP 410). A requeue starts over."
                ),
            ),
            (
                failed(
                    Some(FailureKind::Abandoned),
                    0,
                    "abandoned: 5 leases in a row expired without a result",
                ),
                format!(
                    "Dead-lettered at {at}: several workers in a row stopped without reporting a result (abandoned: 5 leases \
                     in a row expired without a result). Sending this event may be what crashes them. A requeue tries \
                     again."
                ),
            ),
            (
                EventView { manual_last: by_ops(ManualAction::Cancel), ..cancelled },
                format!(
                    "Cancelled by ops at {at} (wrong customer), after 2 attempts. A requeue sends it again."
                ),
            ),
            (
                failed(Some(FailureKind::Cancelled), 0, "manual_cancelled"),
                format!("Cancelled at {at}, before any attempt. A requeue sends it again."),
            ),
        ];
        for (event, expected) in cases {
            assert_eq!(explain_default(&event, None), expected);
        }
    }

    fn with_budget(budget: u32) -> RetryPolicy {
        RetryPolicy::new(RetryPolicySpec { budget, ..RetryPolicySpec::exponential() }).unwrap()
    }

    #[test]
    fn a_retry_budget_is_mentioned_only_if_it_limits_the_retries() {
        let lease_owner = Some(WorkerId::new("web-1").unwrap());
        let sending = EventView { lease_owner, lease_until: Some(NOON), ..retrying() };
        let due = "due at 2026-01-31T12:00:00.000000Z";
        let cases = [
            (pending(), 2, format!("Waiting for its first attempt, {due}.")),
            (
                retrying(),
                2,
                format!(
                    "Retry 2 of 2 is {due}, after HTTP 503: try later. The retry budget now allows 2 of its 5 retries."
                ),
            ),
            (retrying(), 5, format!("Retry 2 of 5 is {due}, after HTTP 503: try later.")),
            (retrying(), 0, format!("Retry 2 of 5 is {due}, after HTTP 503: try later.")),
            (
                retrying(),
                1,
                format!(
                    "Retry 2 of 2 is {due}, after HTTP 503: try later. The retry budget now allows 1 of its 5 retries."
                ),
            ),
            (
                sending,
                3,
                "Attempt 3 of 4 is being made by worker web-1, under a lease until 2026-01-31T12:00:00.000000Z; if that \
                 passes without a result, another worker takes over. The retry budget now allows 3 of its 5 retries."
                    .to_owned(),
            ),
        ];
        for (event, budget, expected) in cases {
            assert_eq!(explain(&event, None, &with_budget(budget)), expected);
        }
    }

    #[test]
    fn an_event_that_the_budget_ended_says_so_even_if_the_budget_has_changed() {
        let exhausted = failed(Some(FailureKind::Exhausted), 2, "HTTP 500");
        for budget in [0, 1, 3] {
            assert_eq!(
                explain(&exhausted, None, &with_budget(budget)),
                "Dead-lettered at 2026-01-31T12:00:00.000000Z, after 2 attempts of 6, because the retry budget allowed no \
                 more; the last error was: HTTP 500. A requeue starts over."
            );
        }
    }
}
