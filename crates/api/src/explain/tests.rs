//! The explanation of every state.

use std::time::Duration;

use posthaste_domain::{
    DestinationId, DestinationUrl, ErrorClass, EventId, EventKey, Excerpt, LeaseToken, MessageId,
    RetryPolicySpec, Timestamp, Trigger, WorkerId,
};
use posthaste_store::{AttemptView, AuditView, EventDetail, OpenCircuit, OperatorPause, ReceiverPause};

use super::*;

const NOON: Timestamp = Timestamp::from_secs(1_769_860_800);

fn url() -> DestinationUrl {
    DestinationUrl::from_stored("https://receiver.example/hook".to_owned())
}

/// Explains under the default policy, whose retry budget is off.
fn explain_default(event: &EventView, destination: Option<&DestinationStatus>) -> String {
    explain(event, None, destination, &RetryPolicy::default())
}

fn pending() -> EventView {
    EventView {
        key: EventKey(1),
        event_id: EventId::from_stored("order-17".to_owned()),
        message_id: MessageId::v7(NOON, [0; 10]),
        app: None,
        destination_id: DestinationId(1),
        destination_url: url(),
        event_type: "invoice.paid".to_owned(),
        payment_request_id: None,
        webhook_id: None,
        session_id: None,
        stored_by: None,
        replay_of: None,
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

fn healthy() -> DestinationStatus {
    DestinationStatus {
        id: DestinationId(1),
        url: url(),
        app: None,
        disabled: None,
        operator_pause: None,
        receiver_pause: None,
        circuit: None,
        failing_since: None,
    }
}

#[test]
fn a_pending_event_is_explained_by_its_next_attempt() {
    let lease_owner = Some(WorkerId::new("web-1").unwrap());
    let cases = [
        (pending(), "Waiting for its first attempt, due at 2026-01-31T12:00:00.000000Z."),
        (
            EventView { next_attempt_at: Some(NOON.after(Duration::from_secs(3_600))), ..pending() },
            "Waiting for its first attempt, due at 2026-01-31T13:00:00.000000Z, as its producer asked.",
        ),
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
    let receiver_pause = Some(ReceiverPause { at: NOON, until: later });
    let paused = DestinationStatus { receiver_pause, ..healthy() };
    let circuit =
        Some(OpenCircuit { since: NOON, next_probe_at: later, last_error: Some("HTTP 500".into()) });
    let open = DestinationStatus { circuit, failing_since: Some(NOON), ..healthy() };
    let both = DestinationStatus { receiver_pause, failing_since: None, ..open.clone() };
    let operator_pause = |until, reason: Option<&str>| {
        let reason = reason.map(str::to_owned);
        let operator_pause = Some(OperatorPause { actor: "ops".into(), at: NOON, until, reason });
        DestinationStatus { operator_pause, ..healthy() }
    };
    let by_operator = operator_pause(None, Some("new disks"));
    let for_a_minute = operator_pause(Some(later), None);
    let due = "Waiting for its first attempt, due at 2026-01-31T12:00:00.000000Z.";
    let cases = [
        (
            &paused,
            " Held because the destination requested a pause until 2026-01-31T12:01:00.000000Z; this does not use up \
             attempts.",
        ),
        (
            &open,
            " Held because the destination's circuit breaker has been open since 2026-01-31T12:00:00.000000Z after repeated \
             failures, with the next probe at 2026-01-31T12:01:00.000000Z; this does not use up attempts. Failing since \
             2026-01-31T12:00:00.000000Z.",
        ),
        (
            &both,
            " Held because the destination requested a pause until 2026-01-31T12:01:00.000000Z, and the destination's \
             circuit breaker has been open since 2026-01-31T12:00:00.000000Z after repeated failures, with the next probe \
             at 2026-01-31T12:01:00.000000Z; this does not use up attempts.",
        ),
        (
            &by_operator,
            " Held because ops paused the destination at 2026-01-31T12:00:00.000000Z (new disks), until it is resumed; this \
             does not use up attempts.",
        ),
        (
            &for_a_minute,
            " Held because ops paused the destination at 2026-01-31T12:00:00.000000Z, until 2026-01-31T12:01:00.000000Z; \
             this does not use up attempts.",
        ),
    ];
    for (destination, held) in cases {
        assert_eq!(explain_default(&pending(), Some(destination)), format!("{due}{held}"));
    }
    let after_the_pause = EventView { next_attempt_at: Some(later), ..pending() };
    for ended_by_then in [&paused, &for_a_minute] {
        assert!(!explain_default(&after_the_pause, Some(ended_by_then)).contains("Held"));
    }
    assert!(explain_default(&after_the_pause, Some(&by_operator)).contains("Held"), "the pause has no end");
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
            failed(Some(FailureKind::Abandoned), 0, "abandoned: 5 leases in a row expired without a result"),
            format!(
                "Dead-lettered at {at}: several workers in a row stopped without reporting a result (abandoned: 5 leases \
                 in a row expired without a result). Sending this event may be what crashes them. A requeue tries \
                 again."
            ),
        ),
        (
            failed(Some(FailureKind::Expired), 2, "expired after 24 h: HTTP 503: try later"),
            format!(
                "Dead-lettered at {at}, after 2 attempts, because it had not been delivered in time (expired after 24 h: HTTP \
                 503: try later). A requeue starts over, with the same time to be delivered."
            ),
        ),
        (
            EventView { manual_last: by_ops(ManualAction::Cancel), ..cancelled },
            format!("Cancelled by ops at {at} (wrong customer), after 2 attempts. A requeue sends it again."),
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
        assert_eq!(explain(&event, None, None, &with_budget(budget)), expected);
    }
}

#[test]
fn an_event_that_the_budget_ended_says_so_even_if_the_budget_has_changed() {
    let exhausted = failed(Some(FailureKind::Exhausted), 2, "HTTP 500");
    for budget in [0, 1, 3] {
        assert_eq!(
            explain(&exhausted, None, None, &with_budget(budget)),
            "Dead-lettered at 2026-01-31T12:00:00.000000Z, after 2 attempts of 6, because the retry budget allowed no \
             more; the last error was: HTTP 500. A requeue starts over."
        );
    }
}

fn attempt(number: u32, http_status: Option<u16>) -> AttemptView {
    AttemptView {
        token: LeaseToken::random([1; 16]),
        attempt: number,
        trigger: Trigger::Scheduled,
        started_at: NOON,
        duration: Duration::from_secs(1),
        http_status,
        error_class: http_status.is_none().then_some(ErrorClass::Timeout),
        excerpt: Excerpt::from_stored(String::new()),
        worker: WorkerId::new("web-1").unwrap(),
        applied: false,
    }
}

/// Explains an event with this history, and a requeue at this time.
fn explain_with(event: &EventView, history: Vec<AttemptView>, requeued_at: Option<Timestamp>) -> String {
    let requeue = |at| AuditView { at, ..by_ops(ManualAction::Requeue).unwrap() };
    let detail =
        EventDetail { event: event.clone(), history, audit: requeued_at.map(requeue).into_iter().collect() };
    explain(event, LateResult::find(&detail).as_ref(), None, &RetryPolicy::default())
}

#[test]
fn an_event_cancelled_in_flight_says_what_the_receiver_answered() {
    let at = Rfc3339(NOON);
    let event = EventView { claims: 1, ..failed(Some(FailureKind::Cancelled), 0, "manual_cancelled") };
    let without_result =
        format!("Cancelled at {at}, before any attempt had a result. A requeue sends it again.");
    assert_eq!(explain_with(&event, Vec::new(), None), without_result);
    assert_eq!(
        explain_with(&event, vec![attempt(1, Some(200))], None),
        format!(
            "Cancelled at {at}, while attempt 1 was in flight: the receiver answered HTTP 200, which was not applied. A \
             requeue sends it again."
        )
    );
    let by_ops = EventView { manual_last: by_ops(ManualAction::Cancel), attempts: 1, ..event.clone() };
    assert_eq!(
        explain_with(&by_ops, vec![attempt(1, Some(500)), attempt(2, None)], None),
        format!(
            "Cancelled by ops at {at}, while attempt 2 was in flight: the request failed with timeout, which was not \
             applied. A requeue sends it again."
        )
    );
    let later = NOON.after(Duration::from_secs(2));
    let requeued = EventView { last_attempted_at: Some(NOON), updated_at: later, ..event.clone() };
    assert_eq!(
        explain_with(&requeued, vec![attempt(1, Some(200))], Some(later)),
        format!(
            "Cancelled at {}, before any attempt since its requeue had a result. A requeue sends it again.",
            Rfc3339(later)
        ),
        "the late result is older than the requeue"
    );
    let cancelled_later = EventView { updated_at: later, ..event };
    assert_eq!(
        explain_with(&cancelled_later, vec![attempt(1, Some(200))], None),
        format!(
            "Cancelled at {}, before any attempt had a result. A requeue sends it again. A worker that had lost its lease \
             reported the result of attempt 1: the receiver answered HTTP 200, which was not applied.",
            Rfc3339(later)
        )
    );
}

#[test]
fn a_result_of_a_lost_lease_is_explained_until_its_attempt_is_recorded() {
    let taken_over = EventView { lost_leases: 1, claims: 1, ..pending() };
    assert_eq!(
        explain_with(&taken_over, vec![attempt(1, Some(200))], None),
        format!(
            "Waiting for its first attempt, due at {}. Its last lease expired without a result. A worker that had lost its \
             lease reported the result of attempt 1: the receiver answered HTTP 200, which was not applied.",
            Rfc3339(NOON)
        )
    );
    let recorded = EventView { attempts: 1, ..retrying() };
    let history = vec![attempt(1, Some(200)), AttemptView { applied: true, ..attempt(1, Some(503)) }];
    assert_eq!(explain_with(&recorded, history, None), explain_default(&recorded, None));
}
