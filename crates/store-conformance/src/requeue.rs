//! Requeueing dead letters.

use futures_util::future::join;
use posthaste_domain::{DeliveryStatus, EventId, FailureKind, NewEventSpec, Trigger};
use posthaste_store::{ClaimRequest, EventView, ManualAction, StoreError};

use crate::Harness;
use crate::fixture::*;

async fn requeue(store: &Handle, event_id: &EventId) -> EventView {
    store.requeue(event_id, "operator".into()).await.expect("a failed event can be requeued")
}

pub async fn s2_fr004_ac1_requeue_moves_only_failed_to_pending(harness: &dyn Harness) {
    let store = harness.store();
    let other = enqueue_dead_lettered(&store, event()).await;
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let before = detail(&store, &other).await;
    assert_eq!(requeue(&store, &event_id).await.status, DeliveryStatus::Pending);
    assert_eq!(detail(&store, &other).await, before, "no other event changes");
    assert_eq!(claim_one(&store).await.event_id, event_id);
}

pub async fn s2_fr004_ac2_requeue_resets_attempts_error_lease_and_due_time(harness: &dyn Harness) {
    let store = harness.store();
    let twice = NewEventSpec { max_attempts: Some(2), ..event() };
    let event_id = enqueue_retrying(&store, twice).await;
    harness.advance(HOUR).await;
    apply(&store, &claim_one(&store).await, status(503)).await;
    assert_eq!(view(&store, &event_id).await.failure_kind, Some(FailureKind::Exhausted));
    harness.advance(HOUR).await;

    let event = requeue(&store, &event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Pending, None));
    assert_eq!((event.attempts, event.max_attempts), (0, 2));
    assert_eq!((&event.last_error, &event.lease_owner, event.lease_until), (&None, &None, None));
    assert_eq!(event.next_attempt_at, Some(event.updated_at), "the event is due at the time of the requeue");
    assert_time_between(event.created_at, event.updated_at, 2 * HOUR);
    assert_eq!(view(&store, &event_id).await, event, "the returned event is the stored event");
}

pub async fn s2_fr004_ac3_requeue_of_non_failed_is_a_conflict(harness: &dyn Harness) {
    let store = harness.store();
    let done = enqueue_delivered(&store, event()).await;
    let retried = enqueue_retrying(&store, event()).await;
    let leased = enqueue(&store, event()).await;
    claim_one(&store).await;
    let pending = enqueue(&store, event()).await;
    for event_id in [done, retried, leased, pending] {
        let before = detail(&store, &event_id).await;
        let refused = store.requeue(&event_id, "operator".into()).await;
        let status = before.event.status;
        assert_eq!(refused, Err(StoreError::NotRequeueable { event_id: event_id.clone(), status }));
        assert_eq!(
            detail(&store, &event_id).await,
            before,
            "a refused requeue changes nothing and is not audited"
        );
    }
}

pub async fn an_unknown_event_cannot_be_requeued(harness: &dyn Harness) {
    let store = harness.store();
    let refused = store.requeue(&id("unknown"), "operator".into()).await;
    assert_eq!(refused, Err(StoreError::EventNotFound { event_id: id("unknown") }));
}

pub async fn a_requeue_keeps_payload_destination_and_history(harness: &dyn Harness) {
    let store = harness.store();
    let spec = event();
    let event_id = enqueue_dead_lettered(&store, spec.clone()).await;
    let before = detail(&store, &event_id).await;
    requeue(&store, &event_id).await;
    assert_eq!(detail(&store, &event_id).await.history, before.history);
    let lease = claim_one(&store).await;
    assert_eq!(lease.payload.expect_loaded(), &spec.payload);
    assert_eq!(lease.destination_url, before.event.destination_url);
    assert_eq!((lease.event_id, lease.message_id), (event_id, before.event.message_id));
}

pub async fn a_requeue_is_audited_with_its_actor(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let requeued =
        store.requeue(&event_id, "night shift".into()).await.expect("a failed event can be requeued");
    let detail = detail(&store, &event_id).await;
    assert_eq!(detail.audit.len(), 1);
    assert_eq!(
        (detail.audit[0].action, detail.audit[0].actor.as_str()),
        (ManualAction::Requeue, "night shift")
    );
    assert_same_time(detail.audit[0].at, requeued.updated_at);
    assert_eq!(detail.event.manual_last.as_ref(), detail.audit.last());
    assert_eq!(requeued.manual_last, detail.event.manual_last);
}

pub async fn the_first_attempt_after_a_requeue_is_manual_and_the_next_scheduled(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    requeue(&store, &event_id).await;
    let released = claim_one(&store).await;
    assert_eq!(released.trigger, Trigger::Manual);
    store.release(&[(&released).into()]).await.expect("the store is up");

    let lease = claim_one(&store).await;
    assert_eq!(lease.trigger, Trigger::Manual, "the manual attempt was not made yet");
    apply(&store, &lease, status(500)).await;
    harness.advance(HOUR).await;
    let lease = claim_one(&store).await;
    assert_eq!(lease.trigger, Trigger::Scheduled);
    apply(&store, &lease, success()).await;
    let history = detail(&store, &event_id).await.history;
    let made: Vec<_> = history.iter().map(|attempt| (attempt.attempt, attempt.trigger)).collect();
    assert_eq!(made, [(1, Trigger::Scheduled), (1, Trigger::Manual), (2, Trigger::Scheduled)]);
}

pub async fn history_is_oldest_first_across_requeues(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let mut tokens = Vec::new();
    // Each requeue restarts the attempt numbers, and the attempts may have equal timestamps.
    for _ in 0..8 {
        let lease = claim_one(&store).await;
        tokens.push(lease.token);
        apply(&store, &lease, status(410)).await;
        requeue(&store, &event_id).await;
    }
    let history = detail(&store, &event_id).await.history;
    assert_eq!(history.iter().map(|attempt| attempt.token).collect::<Vec<_>>(), tokens);
}

pub async fn a_requeued_event_has_all_its_attempts_again(harness: &dyn Harness) {
    let store = harness.store();
    let event_id =
        enqueue_and_attempt(&store, NewEventSpec { max_attempts: Some(1), ..event() }, status(500)).await;
    let again = requeue(&store, &event_id).await;
    assert_eq!((again.attempts, again.claims), (0, 1), "a requeue does not reset the count of leases");
    apply(&store, &claim_one(&store).await, status(500)).await;
    let event = view(&store, &event_id).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Exhausted)));
    assert_eq!((event.attempts, event.claims), (1, 2));
}

pub async fn requeued_event_does_not_count_as_a_retry(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    requeue(&store, &event_id).await;
    let claimed = claim(&store, &ClaimRequest { retries_max: 0, ..claim_by("worker-a") }).await;
    assert_eq!(claimed.leases.len(), 1);
}

pub async fn a_cancelled_event_can_be_requeued_and_delivered(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    store
        .cancel(&event_id, "operator".into(), Some("by mistake"))
        .await
        .expect("a pending event can be cancelled");
    let requeued = requeue(&store, &event_id).await;
    assert_eq!((requeued.status, requeued.failure_kind), (DeliveryStatus::Pending, None));
    assert_eq!(requeued.last_error, None);
    apply(&store, &claim_one(&store).await, success()).await;
    assert_eq!(view(&store, &event_id).await.status, DeliveryStatus::Delivered);
}

pub async fn a_requeue_publishes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let before = end_of_log(&store).await;
    requeue(&store, &event_id).await;
    assert_eq!(published_after(&store, before).await, []);
}

pub async fn concurrent_requeues_of_one_event_apply_once(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    for _ in 0..10 {
        let event_id = enqueue_dead_lettered(&store, event()).await;
        let (one, other) =
            join(store.requeue(&event_id, "one".into()), second.requeue(&event_id, "other".into())).await;
        assert_ne!(one.is_ok(), other.is_ok(), "{one:?}, {other:?}");
        let status = DeliveryStatus::Pending;
        let refused = Err(StoreError::NotRequeueable { event_id: event_id.clone(), status });
        assert!(one == refused || other == refused, "{one:?}, {other:?}");
        assert_eq!(detail(&store, &event_id).await.audit.len(), 1);
        apply(&store, &claim_one(&store).await, success()).await;
    }
}

pub async fn requeue_wakes_waiting_workers(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let mut wakeups = store.wakeups();
    requeue(&store, &event_id).await;
    assert_woken(&mut wakeups).await;
}
