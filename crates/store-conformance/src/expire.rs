//! Expiry: events that have not ended in time are dead-lettered.

use std::time::Duration;

use posthaste_domain::{DeliveryStatus, EventId, EventKey, FailureKind, NoticeKind, Trigger};
use posthaste_store::{
    CircuitReport, ExpireRequest, ExpireResponse, OpenCircuitReport, Overview, PauseRequest, SettleResult,
};

use crate::Harness;
use crate::fixture::*;

/// How long after it was enqueued or requeued an event of these cases expires.
const EXPIRE_AFTER: Duration = DAY;

async fn step(store: &Handle, after: Option<EventKey>, rows_max: usize) -> ExpireResponse {
    let request = ExpireRequest { expire_after: EXPIRE_AFTER, after, rows_max };
    store.expire(&request).await.expect("the store is up")
}

/// Walks over all pending events in one step and returns the events that expired.
async fn expire(store: &Handle) -> Vec<EventId> {
    let ExpireResponse { expired, next } = step(store, None, 100).await;
    assert_eq!(next, None, "the step examines every event");
    expired
}

async fn overview(store: &Handle) -> Overview {
    store.overview().await.expect("the store is up")
}

/// Asserts that exactly this event expired.
#[track_caller]
fn assert_only(expired: &[EventId], event_id: &EventId) {
    assert_eq!(expired, std::slice::from_ref(event_id));
}

/// Asserts that an event is dead-lettered as expired and that no claim finds it.
async fn assert_expired(store: &Handle, event_id: &EventId, last_error: &str) {
    let event = view(store, event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Expired)));
    assert_eq!(event.last_error.as_deref(), Some(last_error));
    assert_eq!((event.next_attempt_at, event.lease_owner, event.lease_until), (None, None, None));
    assert_nothing_claimable(store).await;
}

pub async fn an_event_expires_at_its_time_and_not_before(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    harness.advance(EXPIRE_AFTER - HOUR).await;
    assert_eq!(expire(&store).await, []);
    assert_eq!(view(&store, &event_id).await.status, DeliveryStatus::Pending);
    harness.advance(2 * HOUR).await;
    assert_only(&expire(&store).await, &event_id);
    assert_expired(&store, &event_id, "expired after 24 h without an attempt").await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.attempts, event.claims, event.manual_last), (0, 0, None));
    assert_time_between(event.created_at, event.updated_at, EXPIRE_AFTER + HOUR);
    assert_eq!(expire(&store).await, [], "an event expires once");
}

pub async fn an_event_held_by_a_pause_expires(harness: &dyn Harness) {
    let store = harness.store();
    let retried = enqueue_and_attempt(&store, event(), requests_pause(30 * MINUTE)).await;
    let waiting = enqueue(&store, event()).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    let pausing = enqueue(&store, event()).await;
    for lease in claim_all(&store).await {
        if lease.event_id == pausing {
            apply(&store, &lease, requests_pause(30 * MINUTE)).await;
        } else {
            release(&store, &[&lease]).await;
        }
    }
    assert_eq!(expire(&store).await, [retried.clone(), waiting.clone()], "in the order of their keys");
    let held = "held by a pause of its destination";
    assert_expired(&store, &waiting, &format!("expired after 24 h without an attempt, {held}")).await;
    assert_expired(&store, &retried, &format!("expired after 24 h, {held}: HTTP 503")).await;
}

pub async fn an_event_held_by_an_operators_pause_expires(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let destination = view(&store, &event_id).await.destination_id;
    let pause = PauseRequest::new("operator", None, None);
    store.pause_destination(destination, &pause).await.expect("the destination exists");
    harness.advance(EXPIRE_AFTER + HOUR).await;
    assert_only(&expire(&store).await, &event_id);
    let held = "held by a pause of its destination";
    assert_expired(&store, &event_id, &format!("expired after 24 h without an attempt, {held}")).await;
}

pub async fn an_event_held_by_an_open_circuit_expires(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    let report = CircuitReport {
        worker: worker("worker-a"),
        destination: view(&store, &event_id).await.destination_id,
        open: Some(OpenCircuitReport {
            open_for: MINUTE,
            next_probe_in: MINUTE,
            last_error: None,
            expires_in: HOUR,
        }),
    };
    store.report_circuits(&[report]).await.expect("the store is up");
    assert_only(&expire(&store).await, &event_id);
    let held = "held by the open circuit of its destination";
    assert_expired(&store, &event_id, &format!("expired after 24 h without an attempt, {held}")).await;
}

pub async fn an_event_with_a_future_retry_expires(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    apply(&store, &claim_one(&store).await, status(500)).await;
    assert_only(&expire(&store).await, &event_id);
    assert_expired(&store, &event_id, "expired after 24 h: HTTP 500").await;
    assert_eq!(view(&store, &event_id).await.attempts, 1);
    harness.advance(HOUR).await;
    assert_nothing_claimable(&store).await;
    assert_eq!(detail(&store, &event_id).await.history.len(), 1, "its attempts stay");
}

pub async fn an_event_in_flight_ends_by_its_own_result(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    let lease = claim_one(&store).await;
    assert_eq!(expire(&store).await, []);
    apply(&store, &lease, success()).await;
    assert_eq!(expire(&store).await, []);
    assert_eq!(view(&store, &event_id).await.status, DeliveryStatus::Delivered);
}

pub async fn an_event_with_an_expired_lease_expires(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    assert_only(&expire(&store).await, &event_id);
    assert_expired(&store, &event_id, "expired after 24 h without an attempt").await;
    assert_eq!(settle(&store, &settlement(&lease, success())).await, SettleResult::Stale);
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.claims, event.attempts), (DeliveryStatus::Failed, 1, 0));
}

pub async fn a_requeue_restarts_the_period(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    assert_only(&expire(&store).await, &event_id);
    let requeued = store.requeue(&event_id, "operator".into()).await.expect("an expired event has failed");
    assert_eq!((requeued.failure_kind, requeued.last_error), (None, None));
    harness.advance(EXPIRE_AFTER - HOUR).await;
    assert_eq!(expire(&store).await, []);
    let lease = claim_one(&store).await;
    assert_eq!(lease.trigger, Trigger::Manual);
    apply(&store, &lease, status(500)).await;
    harness.advance(2 * HOUR).await;
    assert_only(&expire(&store).await, &event_id);
    assert_expired(&store, &event_id, "expired after 24 h: HTTP 500").await;
    let manual_last = view(&store, &event_id).await.manual_last.expect("it was requeued");
    assert_eq!(manual_last.actor, "operator", "the last action stays that of the operator");
    assert_eq!(detail(&store, &event_id).await.audit.len(), 1, "an expiry is no operator's action");
}

pub async fn a_walk_continues_where_its_last_step_ended(harness: &dyn Harness) {
    let store = harness.store();
    let old = enqueue_all(&store, vec![event(), event(), event(), event(), event()]).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    let cancelled = enqueue(&store, event()).await;
    store.cancel(&cancelled, "operator".into(), None).await.expect("a pending event can be cancelled");
    enqueue_all(&store, vec![event(), event(), event()]).await;

    let first = step(&store, None, 2).await;
    assert_eq!(first.expired, old[..2]);
    let second = step(&store, first.next, 2).await;
    assert_eq!((second.expired.as_slice(), second.next.is_some()), (&old[2..4], true));
    let third = step(&store, second.next, 2).await;
    assert_eq!(third, ExpireResponse { expired: vec![old[4].clone()], next: None });
    assert_eq!(overview(&store).await.pending, 3);
    assert_eq!(step(&store, None, 2).await, ExpireResponse::default(), "the other events are not old enough");
}

pub async fn two_walks_at_the_same_time_expire_each_event_once(harness: &dyn Harness) {
    let (store, other) = (harness.store(), harness.second_handle());
    let mut enqueued = enqueue_all(&store, vec![event(); 20]).await;
    let before = end_of_log(&store).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    let (one, two) = futures_util::future::join(expire(&store), expire(&other)).await;
    // A step skips events that the other is changing.
    let rest = expire(&store).await;
    let mut expired = [one, two, rest].concat();
    expired.sort();
    enqueued.sort();
    assert_eq!(expired, enqueued);
    assert_eq!(published_after(&store, before).await.len(), 20);
    let Overview { pending, failed, .. } = overview(&store).await;
    assert_eq!((pending, failed), (0, 20));
}

pub async fn expired_events_are_counted_and_published(harness: &dyn Harness) {
    let store = harness.store();
    let retried = enqueue_retrying(&store, event()).await;
    let waiting = enqueue(&store, event()).await;
    harness.advance(EXPIRE_AFTER + HOUR).await;
    let recent = enqueue(&store, event()).await;
    let before = end_of_log(&store).await;
    assert_eq!(expire(&store).await, [retried.clone(), waiting.clone()]);

    let Overview { pending, pending_ready, retrying, failed, cancelled, .. } = overview(&store).await;
    assert_eq!((pending, pending_ready, retrying, failed, cancelled), (1, 1, 0, 2, 0));
    let notices: Vec<_> = published_after(&store, before)
        .await
        .into_iter()
        .map(|published| (published.notice.kind, published.notice.event_id, published.notice.attempts))
        .collect();
    let expired = NoticeKind::DeadLettered(FailureKind::Expired);
    assert_eq!(notices, [(expired, retried, 1), (expired, waiting, 0)]);
    assert_eq!(claim_one(&store).await.event_id, recent, "other events are claimed as before");
}
