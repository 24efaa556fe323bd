//! Later delivery: the first attempt is due when the producer asked for.

use posthaste_domain::{DeliveryStatus, MessageSpec, NewEventSpec};
use posthaste_store::ExpireRequest;

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

pub async fn an_event_is_not_claimed_before_its_time(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, NewEventSpec { deliver_in: HOUR, ..event() }).await;
    let view = view(&store, &event_id).await;
    assert_time_between(view.created_at, view.next_attempt_at.expect("it is pending"), HOUR);
    assert_nothing_claimable(&store).await;
    harness.advance(HOUR + MINUTE).await;
    let lease = claim_one(&store).await;
    assert_eq!((lease.event_id, lease.attempts), (event_id, 0));
    assert!(lease.overdue < HOUR);
}

pub async fn a_message_is_not_claimed_before_its_time(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let message = publish(&store, &app, MessageSpec { deliver_in: HOUR, ..message_spec() }).await.message;
    assert_time_between(message.created_at, message.deliver_at.expect("it is later"), HOUR);
    publish_one(&store, &app).await;
    let prompt = claim_one(&store).await;
    assert_ne!(prompt.message_id, message.id);
    harness.advance(HOUR + MINUTE).await;
    apply(&store, &prompt, success()).await;
    assert_eq!(claim_one(&store).await.message_id, message.id);
}

pub async fn an_event_expires_after_its_time_not_after_its_creation(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, NewEventSpec { deliver_in: DAY, ..event() }).await;
    let request = ExpireRequest { expire_after: HOUR, after: None, rows_max: 100 };
    harness.advance(HOUR * 2).await;
    assert_eq!(store.expire(&request).await.expect("the store is up").expired, []);
    harness.advance(DAY).await;
    let expired = store.expire(&request).await.expect("the store is up").expired;
    assert_eq!(expired, std::slice::from_ref(&event_id));
    assert_eq!(view(&store, &event_id).await.status, DeliveryStatus::Failed);
}

pub async fn a_cancelled_event_that_is_requeued_is_due_now(harness: &dyn Harness) {
    let store = harness.store();
    let event_id = enqueue(&store, NewEventSpec { deliver_in: DAY, ..event() }).await;
    store.cancel(&event_id, "ann".into(), None).await.expect("it is pending");
    store.requeue(&event_id, "ann".into()).await.expect("it is failed");
    assert_eq!(claim_one(&store).await.event_id, event_id);
}
