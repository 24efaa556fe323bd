//! Settling: what the store writes after an attempt.

use posthaste_domain::{
    DeliveryStatus, ErrorClass, FailureKind, NewEventSpec, NoticeKind, Outcome, RetryPolicy, RetryPolicySpec,
    Trigger,
};
use posthaste_store::{SettleResult, Settlement};

use crate::Harness;
use crate::fixture::*;

fn schedule() -> RetryPolicy {
    RetryPolicy::new(RetryPolicySpec::schedule()).expect("the schedule is a valid policy")
}

pub async fn s4_a1_delivery_ends_the_event_and_is_published(harness: &dyn Harness) {
    let store = harness.store();
    let before = end_of_log(&store).await;
    let event_id = enqueue_delivered(&store, event()).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Delivered, None));
    assert_eq!((event.attempts, event.claims, event.last_error), (1, 1, None));
    assert_eq!((event.next_attempt_at, event.lease_owner, event.lease_until), (None, None, None));
    assert_same_time(event.delivered_at.expect("a delivered event has a delivery time"), event.updated_at);
    assert_time_between(
        event.last_attempted_at.expect("an attempt was made"),
        event.updated_at,
        ATTEMPT_DURATION,
    );
    let notices = published_after(&store, before).await;
    assert_eq!(notices.len(), 1);
    assert_eq!((notices[0].notice.kind, &notices[0].notice.event_id), (NoticeKind::Delivered, &event_id));
    harness.advance(30 * DAY).await;
    assert_nothing_claimable(&store).await;
}

pub async fn s4_s1_first_failure_is_due_again_in_30_seconds(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let failure = Outcome::response(500, None, b"out of order");
    let settlement = settlement_under(&schedule(), &claim_one(&store).await, failure);
    assert_eq!(settle(&store, &settlement).await, SettleResult::Applied);
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.attempts), (DeliveryStatus::Pending, 1));
    assert_eq!(event.next_attempt_at, Some(event.updated_at.after(30 * SECOND)));
    assert_eq!(event.last_error.as_deref(), Some("HTTP 500: out of order"));
}

pub async fn s4_f1_fifth_failure_is_dead_lettered_and_published(harness: &dyn Harness) {
    let store = harness.store();
    let before = end_of_log(&store).await;
    let max_attempts = Some(schedule().max_attempts());
    let event_id = enqueue(&store, NewEventSpec { max_attempts, ..event() }).await;
    for (attempts, delay) in [(1, 30), (2, 120), (3, 600), (4, 3_600)] {
        let failure = settlement_under(&schedule(), &claim_one(&store).await, status(500));
        assert_eq!(settle(&store, &failure).await, SettleResult::Applied);
        let event = view(&store, &event_id).await;
        assert_eq!((event.status, event.attempts), (DeliveryStatus::Pending, attempts));
        assert_eq!(event.next_attempt_at, Some(event.updated_at.after(delay * SECOND)));
        assert_eq!(published_after(&store, before).await, [], "a retry is not published");
        harness.advance(delay * SECOND + MINUTE).await;
    }
    let failure = settlement_under(&schedule(), &claim_one(&store).await, status(500));
    assert_eq!(settle(&store, &failure).await, SettleResult::Applied);
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Exhausted)));
    assert_eq!((event.attempts, event.next_attempt_at), (5, None));
    let notices = published_after(&store, before).await;
    assert_eq!(notices.len(), 1);
    assert_eq!(
        (notices[0].notice.kind, notices[0].notice.attempts),
        (NoticeKind::DeadLettered(FailureKind::Exhausted), 5)
    );
    harness.advance(30 * DAY).await;
    assert_nothing_claimable(&store).await;
}

pub async fn a_retry_is_due_after_exactly_its_delay(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    for attempts in 1..=5 {
        let delay = RETRY_DELAY * (1 << (attempts - 1));
        apply(&store, &claim_one(&store).await, status(500)).await;
        let event = view(&store, &event_id).await;
        assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Pending, None));
        assert_eq!((event.attempts, event.claims), (attempts, attempts));
        assert_eq!((event.lease_owner, event.lease_until, event.delivered_at), (None, None, None));
        assert_eq!(event.next_attempt_at, Some(event.updated_at.after(delay)));
        harness.advance(delay - RETRY_DELAY / 2).await;
        assert_nothing_claimable(&store).await;
        harness.advance(RETRY_DELAY).await;
    }
}

pub async fn the_last_allowed_attempt_exhausts_the_event(harness: &dyn Harness) {
    let store = harness.store();
    let only_one = NewEventSpec { max_attempts: Some(1), ..event() };
    let event_id = enqueue_and_attempt(&store, only_one, status(500)).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Exhausted)));
    assert_eq!((event.attempts, event.last_error.as_deref()), (1, Some("HTTP 500")));
    assert_eq!((event.next_attempt_at, event.delivered_at), (None, None));
    assert_eq!((event.lease_owner, event.lease_until), (None, None));
    assert!(event.last_attempted_at.is_some());
}

pub async fn status_410_dead_letters_the_event_at_once(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Gone)));
    assert_eq!((event.attempts, event.next_attempt_at), (1, None));
    assert_eq!((event.lease_owner, event.lease_until), (None, None));
    assert_eq!(event.last_error.as_deref(), Some("HTTP 410"));
}

pub async fn every_kind_of_outcome_is_recorded(harness: &dyn Harness) {
    let store = harness.store();
    let responses = [
        (200, "ok"),
        (204, ""),
        (302, "elsewhere"),
        (404, "no \u{1f980} here"),
        (410, "gone"),
        (429, ""),
        (500, "it's \"broken\""),
        (599, ""),
    ];
    let error_classes = [
        ErrorClass::Timeout,
        ErrorClass::Dns,
        ErrorClass::BlockedAddress,
        ErrorClass::Connect,
        ErrorClass::Tls,
        ErrorClass::Certificate,
        ErrorClass::Reset,
        ErrorClass::BrokenResponse,
        ErrorClass::Panic,
    ];
    let responses = responses.map(|(status, body)| Outcome::response(status, None, body.as_bytes()));
    let failures = error_classes.map(|class| Outcome::no_response(class, "detail of the error"));
    for outcome in responses.into_iter().chain(failures) {
        let event_id = enqueue_and_attempt(&store, event(), outcome.clone()).await;
        let detail = detail(&store, &event_id).await;
        assert_eq!(detail.event.last_error, outcome.last_error());
        assert_eq!(detail.history.len(), 1);
        assert_eq!(detail.history[0].http_status, outcome.http_status());
        assert_eq!(detail.history[0].error_class, outcome.error_class());
        assert_eq!(detail.history[0].excerpt, *outcome.excerpt());
    }
}

pub async fn a_delivery_clears_the_error_of_earlier_attempts(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_retrying(&store, event()).await;
    assert_eq!(view(&store, &event_id).await.last_error.as_deref(), Some("HTTP 500"));
    harness.advance(HOUR).await;
    apply(&store, &claim_one(&store).await, success()).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.attempts, event.last_error), (DeliveryStatus::Delivered, 2, None));
}

pub async fn history_is_oldest_first_and_names_lease_and_worker(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let mut tokens = Vec::new();
    for (name, outcome) in [("worker-c", status(500)), ("worker-a", status(404)), ("worker-b", success())] {
        let lease = claim_one(&store).await;
        tokens.push((lease.token, worker(name)));
        let settled = store.settle(&worker(name), &[settlement(&lease, outcome)]).await;
        assert_eq!(settled, Ok(vec![SettleResult::Applied]));
        harness.advance(HOUR).await;
    }
    let history = detail(&store, &event_id).await.history;
    assert_eq!(history.iter().map(|attempt| attempt.attempt).collect::<Vec<_>>(), [1, 2, 3]);
    let statuses: Vec<_> = history.iter().map(|attempt| attempt.http_status).collect();
    assert_eq!(statuses, [Some(500), Some(404), Some(200)]);
    assert!(history.iter().all(|attempt| attempt.duration == ATTEMPT_DURATION));
    assert!(history.iter().all(|attempt| attempt.trigger == Trigger::Scheduled));
    let made_by: Vec<_> = history.iter().map(|attempt| (attempt.token, attempt.worker.clone())).collect();
    assert_eq!(made_by, tokens);
    assert_time_between(history[0].started_at, history[1].started_at, HOUR);
}

pub async fn attempt_is_dated_by_its_start(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    // The store was unavailable for ten minutes after the attempt, so no worker took over the lease.
    harness.advance(ATTEMPT_DURATION + 10 * MINUTE).await;
    let late = Settlement { ended_ago: 10 * MINUTE, ..settlement(&lease, status(500)) };
    assert_eq!(settle(&store, &late).await, SettleResult::Applied);
    let detail = detail(&store, &event_id).await;
    let event = detail.event;
    assert_same_time(detail.history[0].started_at, event.created_at);
    assert_same_time(event.last_attempted_at.expect("an attempt was made"), event.created_at);
    assert_time_between(event.created_at, event.updated_at, ATTEMPT_DURATION + 10 * MINUTE);
    let due = event.updated_at.after(RETRY_DELAY);
    assert_eq!(event.next_attempt_at, Some(due), "the retry delay starts with the settle");
}

pub async fn every_settlement_of_a_large_batch_is_applied(harness: &dyn Harness) {
    let store = harness.store();
    let before = end_of_log(&store).await;
    enqueue_all(&store, vec![event(); 90]).await;
    let leases = claim_all(&store).await;
    let outcomes = [status(200), status(500), status(410)];
    let batch: Vec<Settlement> = leases
        .iter()
        .zip(outcomes.iter().cycle())
        .map(|(lease, outcome)| settlement(lease, outcome.clone()))
        .collect();
    assert_eq!(settle_all(&store, &batch).await, vec![SettleResult::Applied; 90]);
    for (lease, outcome) in leases.iter().zip(outcomes.iter().cycle()) {
        let detail = detail(&store, &lease.event_id).await;
        assert_eq!(detail.event.last_error, outcome.last_error());
        assert_eq!(detail.history.len(), 1);
        assert_eq!(detail.history[0].token, lease.token);
    }
    let overview = store.overview().await.expect("the store is up");
    assert_eq!((overview.delivered, overview.retrying, overview.failed), (30, 30, 30));
    assert_eq!(published_after(&store, before).await.len(), 60);
}
