//! Repeated operator actions: an operator that got no response repeats the action under the same key.

use futures_util::future::join_all;
use posthaste_domain::{DeliveryStatus, EventId};
use posthaste_store::{ActionRequest, EventView, Retention, StoreError};

use crate::Harness;
use crate::fixture::*;

fn keyed(key: &str) -> ActionRequest<'_> {
    ActionRequest { actor: "operator", key: Some(key) }
}

async fn requeue(store: &Handle, event_id: &EventId, key: &str) -> EventView {
    store.requeue(event_id, keyed(key)).await.expect("the event is failed, or this is a repetition")
}

async fn cancel(store: &Handle, event_id: &EventId, key: &str) -> EventView {
    let cancelled = store.cancel(event_id, keyed(key), Some("why")).await;
    cancelled.expect("the event is not delivered, or this is a repetition")
}

fn conflict(key: &str) -> Result<EventView, StoreError> {
    Err(StoreError::IdempotencyConflict { key: key.to_owned() })
}

pub async fn a_repeated_requeue_returns_the_first_response_and_changes_nothing(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let first = requeue(&store, &event_id, "k").await;
    assert_eq!(requeue(&second, &event_id, "k").await, first);
    apply(&store, &claim_one(&store).await, success()).await;
    let before = detail(&store, &event_id).await;
    let repeated = requeue(&store, &event_id, "k").await;
    assert_eq!((repeated.status, repeated.attempts), (DeliveryStatus::Pending, 0));
    assert_eq!((repeated.updated_at, repeated.next_attempt_at), (first.updated_at, first.next_attempt_at));
    assert_eq!((repeated.manual_last, repeated.delivered_at), (first.manual_last, None));
    assert_eq!(detail(&store, &event_id).await, before, "the event stays delivered, with one audit row");
}

pub async fn a_repeated_cancel_returns_the_first_response_and_changes_nothing(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue(&store, event()).await;
    let start = end_of_log(&store).await;
    let first = cancel(&store, &event_id, "k").await;
    assert_eq!(cancel(&second, &event_id, "k").await, first);
    assert_eq!(published_after(&store, start).await.len(), 1);
    requeue(&store, &event_id, "other").await;
    let before = detail(&store, &event_id).await;
    let repeated = cancel(&store, &event_id, "k").await;
    assert_eq!((repeated.status, &repeated.last_error), (DeliveryStatus::Failed, &first.last_error));
    assert_eq!((repeated.updated_at, repeated.next_attempt_at), (first.updated_at, None));
    assert_eq!((repeated.failure_kind, &repeated.manual_last), (first.failure_kind, &first.manual_last));
    assert_eq!(detail(&store, &event_id).await, before, "the event stays pending");
}

pub async fn a_repeated_discard_returns_the_first_response(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let first = store.discard(&event_id, keyed("k"), Some("why")).await;
    assert!(first.is_ok(), "{first:?}");
    assert_eq!(second.discard(&event_id, keyed("k"), Some("why")).await, first);
    let refused = store.discard(&event_id, "operator".into(), None).await;
    assert!(matches!(refused, Err(StoreError::EventDiscarded { .. })), "{refused:?}");
    let other = enqueue_dead_lettered(&store, event()).await;
    let conflict = store.discard(&other, keyed("k"), None).await;
    assert_eq!(conflict, Err(StoreError::IdempotencyConflict { key: "k".to_owned() }));
    assert!(is_stored(&store, &other).await);
}

pub async fn an_operation_key_with_another_event_or_action_is_a_conflict(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let other = enqueue_dead_lettered(&store, event()).await;
    requeue(&store, &event_id, "k").await;
    assert_eq!(store.requeue(&other, keyed("k")).await, conflict("k"));
    assert_eq!(store.cancel(&event_id, keyed("k"), None).await, conflict("k"));
    assert_eq!(store.cancel(&other, keyed("k"), None).await, conflict("k"));
    assert_eq!(view(&store, &event_id).await.status, DeliveryStatus::Pending);
    assert_eq!(view(&store, &other).await.status, DeliveryStatus::Failed);
    requeue(&store, &other, "l").await;
}

pub async fn a_refused_action_does_not_use_up_its_key(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, event()).await;
    let refused = store.requeue(&event_id, keyed("k")).await;
    assert!(matches!(refused, Err(StoreError::NotRequeueable { .. })), "{refused:?}");
    cancel(&store, &event_id, "other").await;
    assert_eq!(requeue(&store, &event_id, "k").await.status, DeliveryStatus::Pending);
}

pub async fn actions_without_a_key_are_never_repetitions(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue_dead_lettered(&store, event()).await;
    store.requeue(&event_id, "operator".into()).await.expect("a failed event can be requeued");
    let refused = store.requeue(&event_id, "operator".into()).await;
    assert!(matches!(refused, Err(StoreError::NotRequeueable { .. })), "{refused:?}");
    for _ in 0..2 {
        store.cancel(&event_id, "operator".into(), None).await.expect("only a delivered event cannot");
    }
    assert_eq!(detail(&store, &event_id).await.audit.len(), 3);
}

pub async fn concurrent_repetitions_of_an_action_apply_once(harness: &dyn Harness) {
    let (store, second) = (harness.store(), harness.second_handle());
    let event_id = enqueue_dead_lettered(&store, event()).await;
    let handles = [&store, &second, &store, &second, &store, &second];
    let requeued = join_all(handles.map(|store| requeue(store, &event_id, "k"))).await;
    assert!(requeued.iter().all(|view| *view == requeued[0]), "{requeued:#?}");
    let cancelled = join_all(handles.map(|store| cancel(store, &event_id, "l"))).await;
    assert!(cancelled.iter().all(|view| *view == cancelled[0]), "{cancelled:#?}");
    // A failed event can be cancelled again, so only the key keeps the repetitions apart.
    let again = join_all(handles.map(|store| cancel(store, &event_id, "m"))).await;
    assert!(again.iter().all(|view| *view == again[0]), "{again:#?}");
    assert_eq!(detail(&store, &event_id).await.audit.len(), 3);
}

pub async fn an_operation_key_is_forgotten_with_its_event(harness: &dyn Harness) {
    let store = harness.store();
    let removed = enqueue_dead_lettered(&store, event()).await;
    requeue(&store, &removed, "k").await;
    apply(&store, &claim_one(&store).await, success()).await;
    harness.advance(2 * DAY).await;
    let retention = Retention {
        keep_for: Some(DAY),
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 100,
    };
    while store.maintain(&retention).await.expect("the store responds").has_more {}
    assert!(!is_stored(&store, &removed).await);
    let refused = store.requeue(&removed, keyed("k")).await;
    assert_eq!(refused, Err(StoreError::EventNotFound { event_id: removed }));
    let event_id = enqueue_dead_lettered(&store, event()).await;
    assert_eq!(requeue(&store, &event_id, "k").await.status, DeliveryStatus::Pending);
}
