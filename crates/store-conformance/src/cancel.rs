//! Cancelling events.

use posthaste_domain::{DeliveryStatus, EventId, FailureKind, NoticeKind};
use posthaste_store::{
    DeadLetterQuery, EventView, LeaseRef, ManualAction, PageRequest, SettleResult, StoreError,
};

use crate::Harness;
use crate::fixture::*;

async fn cancel(store: &Handle, event_id: &EventId, reason: Option<&str>) -> EventView {
    store
        .cancel(event_id, "operator".into(), reason)
        .await
        .expect("only a delivered event cannot be cancelled")
}

pub async fn s2_fr005_ac2_cancel_ends_a_pending_event(harness: &dyn Harness) {
    let store = harness.store();
    let retried = enqueue_retrying(&store, event()).await;
    let pending = enqueue(&store, event()).await;
    harness.advance(HOUR).await;
    for (event_id, attempts) in [(pending, 0), (retried, 1)] {
        let event = cancel(&store, &event_id, None).await;
        assert_eq!(
            (event.status, event.failure_kind),
            (DeliveryStatus::Failed, Some(FailureKind::Cancelled))
        );
        assert_eq!((event.attempts, event.next_attempt_at), (attempts, None));
        assert_eq!(event.last_error.as_deref(), Some("manual_cancelled"));
        assert_time_between(event.created_at, event.updated_at, HOUR);
        assert_eq!(view(&store, &event_id).await, event, "the returned event is the stored event");
    }
    harness.advance(30 * DAY).await;
    assert_nothing_claimable(&store).await;
}

pub async fn s2_fr005_ac2_cancel_in_flight_clears_the_lease(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let lease = claim_one(&store).await;
    let event = cancel(&store, &event_id, None).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Cancelled)));
    assert_eq!((event.lease_owner, event.lease_until), (None, None));

    let before = detail(&store, &event_id).await;
    let held = LeaseRef::from(&lease);
    assert_eq!(store.renew(&[held], LEASE).await, Ok(vec![held]));
    assert_eq!(settle(&store, &settlement(&lease, success())).await, SettleResult::Stale);
    store.release(&[held]).await.expect("lost leases are ignored");
    assert_only_recorded(&store, &before, &[&lease]).await;
}

pub async fn s2_fr005_ac2_cancel_keeps_failed_as_failed(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let event = cancel(&store, &event_id, Some("known")).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Cancelled)));
    assert_eq!(event.last_error.as_deref(), Some("manual_cancelled: known"));
    assert_eq!((event.attempts, event.next_attempt_at), (1, None));
    let again = cancel(&store, &event_id, Some("still")).await;
    assert_eq!(again.last_error.as_deref(), Some("manual_cancelled: still"));
}

pub async fn s2_fr005_ac2_cancel_reason_is_normalised(harness: &dyn Harness) {
    let store = harness.store();
    let reasons = [
        (None, "manual_cancelled"),
        (Some(" \n\t "), "manual_cancelled"),
        (Some("  wrong\r\n customer\0 "), "manual_cancelled: wrong customer"),
        (Some("it's \u{1f980}"), "manual_cancelled: it's \u{1f980}"),
    ];
    for (reason, last_error) in reasons {
        let event_id = enqueue(&store, event()).await;
        assert_eq!(cancel(&store, &event_id, reason).await.last_error.as_deref(), Some(last_error));
    }
}

pub async fn s2_fr005_ac3_cancel_of_delivered_is_a_conflict(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_delivered(&store, event()).await;
    let before = (detail(&store, &event_id).await, end_of_log(&store).await);
    let refused = store.cancel(&event_id, "operator".into(), None).await;
    let status = DeliveryStatus::Delivered;
    assert_eq!(refused, Err(StoreError::NotCancellable { event_id: event_id.clone(), status }));
    assert_eq!((detail(&store, &event_id).await, end_of_log(&store).await), before);
}

pub async fn an_unknown_event_cannot_be_cancelled(harness: &dyn Harness) {
    let store = harness.store();
    let refused = store.cancel(&id("unknown"), "operator".into(), None).await;
    assert_eq!(refused, Err(StoreError::EventNotFound { event_id: id("unknown") }));
}

pub async fn cancelling_a_pending_event_publishes_one_dead_letter(harness: &dyn Harness) {
    let store = harness.store();
    let waiting = enqueue(&store, event()).await;
    let before = end_of_log(&store).await;
    cancel(&store, &waiting, None).await;
    let in_flight = enqueue(&store, event()).await;
    claim_one(&store).await;
    cancel(&store, &in_flight, None).await;
    let notices: Vec<_> =
        published_after(&store, before).await.into_iter().map(|published| published.notice).collect();
    let kinds_and_ids: Vec<_> = notices.iter().map(|notice| (notice.kind, &notice.event_id)).collect();
    let cancelled = NoticeKind::DeadLettered(FailureKind::Cancelled);
    assert_eq!(kinds_and_ids, [(cancelled, &waiting), (cancelled, &in_flight)]);
}

pub async fn cancelling_a_failed_event_publishes_nothing(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let before = end_of_log(&store).await;
    cancel(&store, &event_id, None).await;
    assert_eq!(published_after(&store, before).await, [], "the notice was published when the event failed");
}

pub async fn every_action_is_audited_oldest_first(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    store.cancel(&event_id, "first".into(), Some("why")).await.expect("a pending event can be cancelled");
    store.requeue(&event_id, "second".into()).await.expect("a failed event can be requeued");
    store.cancel(&event_id, "third".into(), None).await.expect("a pending event can be cancelled");
    store.cancel(&event_id, "fourth".into(), None).await.expect("a failed event can be cancelled");
    let detail = detail(&store, &event_id).await;
    let actions: Vec<_> = detail.audit.iter().map(|audit| (audit.action, audit.actor.as_str())).collect();
    let expected = [
        (ManualAction::Cancel, "first"),
        (ManualAction::Requeue, "second"),
        (ManualAction::Cancel, "third"),
        (ManualAction::Cancel, "fourth"),
    ];
    assert_eq!(actions, expected);
    assert_eq!(detail.event.manual_last.as_ref(), detail.audit.last());
    assert_same_time(detail.audit[3].at, detail.event.updated_at);
}

pub async fn every_cancel_is_audited_with_its_own_reason(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let long = "x".repeat(500);
    let reasons = [
        (Some("wrong customer"), Some("wrong customer")),
        (None, None),
        (Some("  it's\r\n \u{1f980} "), Some("  it's\r\n \u{1f980} ")),
        (Some("nul\0"), Some("nul")),
        (Some(" \n\t "), None),
        (Some(long.as_str()), Some(long.as_str())),
    ];
    for (reason, kept) in reasons {
        let cancelled = cancel(&store, &event_id, reason).await;
        let last = cancelled.manual_last.as_ref().expect("it was just cancelled");
        assert_eq!((last.action, last.reason.as_deref()), (ManualAction::Cancel, kept));
        assert_eq!(view(&store, &event_id).await, cancelled, "the returned event is the stored event");
    }
    let requeued = store.requeue(&event_id, "operator".into()).await.expect("a failed event can be requeued");
    assert_eq!(requeued.manual_last.expect("it was just requeued").reason, None);
    let audit = detail(&store, &event_id).await.audit;
    let audited: Vec<_> = audit.iter().map(|audit| audit.reason.as_deref()).collect();
    let expected: Vec<_> = reasons.iter().map(|(_, kept)| *kept).chain([None]).collect();
    assert_eq!(audited, expected, "the requeue removes no earlier entry");

    // A list shows the reason as well, and the audit log of an event remains after its delivery.
    let pending = enqueue(&store, event()).await;
    let cancelled = cancel(&store, &pending, Some("in a list")).await;
    let listed =
        store.dead_letters(&DeadLetterQuery::all(), &PageRequest::default()).await.expect("the store is up");
    assert_eq!(listed.items, [cancelled]);
    for lease in claim_all(&store).await {
        apply(&store, &lease, success()).await;
    }
    assert_eq!(detail(&store, &event_id).await.audit, audit);
}
