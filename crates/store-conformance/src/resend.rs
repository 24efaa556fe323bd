//! Sending a message to an endpoint again.

use posthaste_domain::{DeliveryStatus, EventId, Trigger};
use posthaste_store::{Endpoint, ManualAction, MessageView, StoreError};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn resend(
    store: &Handle,
    app: &App,
    message: &MessageView,
    to: &Endpoint,
) -> Result<EventId, StoreError> {
    store.messages().resend(app.scope(), &ref_to(message), &by_id(to), "ann", None).await
}

pub async fn a_failed_event_is_reopened_with_all_its_attempts(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    store.cancel(&event_of(&message, &endpoint), "bob".into(), None).await.expect("it is pending");
    let resent = resend(&store, &app, &message, &endpoint).await;
    assert_eq!(resent, Ok(event_of(&message, &endpoint)));
    let event = event_view(&store, &message, &endpoint).await;
    assert_eq!((event.status, event.attempts), (DeliveryStatus::Pending, 0));
    assert_eq!(event.max_attempts, policy().max_attempts());
    let audit = event.manual_last.expect("the resend is recorded");
    assert_eq!((audit.action, audit.actor.as_str()), (ManualAction::Resend, "ann"));
    assert_eq!(claim_one(&store).await.trigger, Trigger::Manual);
}

pub async fn a_delivered_or_pending_event_gets_an_extra_one(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    let first = event_of(&message, &endpoint);
    assert_eq!(resend(&store, &app, &message, &endpoint).await, Ok(first.with_run(1)), "it is pending");
    for lease in claim_all(&store).await {
        apply(&store, &lease, success()).await;
    }
    assert_eq!(resend(&store, &app, &message, &endpoint).await, Ok(first.with_run(2)), "it is delivered");
    let lease = claim_one(&store).await;
    assert_eq!((&lease.event_id, &lease.wire_id), (&first.with_run(2), &EventId::from_message(message.id)));
    assert_eq!((lease.max_attempts, lease.trigger), (1, Trigger::Manual));
    apply(&store, &lease, status(500)).await;
    assert_eq!(view(&store, &lease.event_id).await.status, DeliveryStatus::Failed, "it had one attempt");
    assert_eq!(event_view(&store, &message, &endpoint).await.status, DeliveryStatus::Delivered);
}

pub async fn a_resend_passes_the_filters_of_an_endpoint(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint_of_type(&store, &app, "other").await;
    let message = publish_one(&store, &app).await;
    assert_nothing_claimable(&store).await;
    assert_eq!(resend(&store, &app, &message, &endpoint).await, Ok(event_of(&message, &endpoint)));
    let lease = claim_one(&store).await;
    assert_eq!((lease.max_attempts, lease.trigger), (1, Trigger::Manual));
}

pub async fn a_disabled_endpoint_or_an_expunged_message_is_refused(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    set_disabled(&store, &app, &endpoint, true).await;
    let disabled = Err(StoreError::EndpointDisabled { endpoint: endpoint.id.to_string() });
    assert_eq!(resend(&store, &app, &message, &endpoint).await, disabled);
    set_disabled(&store, &app, &endpoint, false).await;
    store.messages().expunge(app.scope(), &ref_to(&message), "ann").await.expect("it exists");
    let expunged = Err(StoreError::PayloadExpunged { message: message.id.to_string() });
    assert_eq!(resend(&store, &app, &message, &endpoint).await, expunged);
}

pub async fn a_resend_wakes_waiting_workers(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let message = publish_one(&store, &app).await;
    let mut wakeups = store.wakeups();
    resend(&store, &app, &message, &endpoint).await.expect("it is accepted");
    assert_woken(&mut wakeups).await;
}
