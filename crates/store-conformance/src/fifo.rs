//! FIFO order: the events of an endpoint are sent one at a time, in the order in which their messages were committed.

use posthaste_domain::{DeliveryOrder, EndpointSpec, EventId, MessageSpec};
use posthaste_store::Endpoint;

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

async fn fifo_endpoint(store: &Handle, app: &App) -> Endpoint {
    add_endpoint(store, app, EndpointSpec { order: DeliveryOrder::Fifo, ..endpoint_spec() }).await
}

async fn publish_events(store: &Handle, app: &App, endpoint: &Endpoint, count: usize) -> Vec<EventId> {
    let mut events = Vec::new();
    for _ in 0..count {
        events.push(event_of(&publish_one(store, app).await, endpoint));
    }
    events
}

pub async fn a_line_is_sent_one_at_a_time_in_order(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = fifo_endpoint(&store, &app).await;
    for event in publish_events(&store, &app, &endpoint, 4).await {
        let lease = claim_one(&store).await;
        assert_eq!(lease.event_id, event);
        assert_nothing_claimable(&harness.second_handle()).await;
        apply(&store, &lease, success()).await;
    }
    assert_nothing_claimable(&store).await;
}

pub async fn a_retry_holds_the_events_behind_it(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = fifo_endpoint(&store, &app).await;
    let events = publish_events(&store, &app, &endpoint, 2).await;
    apply(&store, &claim_one(&store).await, status(500)).await;
    assert_nothing_claimable(&store).await;
    harness.advance(RETRY_DELAY).await;
    let retry = claim_one(&store).await;
    assert_eq!((&retry.event_id, retry.attempts), (&events[0], 1));
    apply(&store, &retry, success()).await;
    assert_eq!(claim_one(&store).await.event_id, events[1]);
}

pub async fn a_dead_lettered_head_lets_its_line_go_on(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = fifo_endpoint(&store, &app).await;
    let spec = MessageSpec { max_attempts: Some(1), ..message_spec() };
    publish(&store, &app, spec).await;
    let next = publish_events(&store, &app, &endpoint, 1).await;
    apply(&store, &claim_one(&store).await, status(500)).await;
    assert_eq!(claim_one(&store).await.event_id, next[0]);
}

pub async fn an_expired_lease_is_taken_over_before_the_line_goes_on(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = fifo_endpoint(&store, &app).await;
    let events = publish_events(&store, &app, &endpoint, 2).await;
    claim_one(&store).await;
    harness.advance(PAST_LEASE).await;
    let lease = claim_one(&store).await;
    assert_eq!(lease.event_id, events[0]);
    assert_nothing_claimable(&store).await;
}

pub async fn a_released_head_is_sent_before_the_events_behind_it(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = fifo_endpoint(&store, &app).await;
    let events = publish_events(&store, &app, &endpoint, 3).await;
    release(&store, &[&claim_one(&store).await]).await;
    assert_eq!(claim_one(&store).await.event_id, events[0]);
}

pub async fn a_requeued_event_goes_back_to_its_position_in_the_line(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = fifo_endpoint(&store, &app).await;
    let events = publish_events(&store, &app, &endpoint, 3).await;
    store.cancel(&events[0], "ann".into(), None).await.expect("it is pending");
    let lease = claim_one(&store).await;
    assert_eq!(lease.event_id, events[1]);
    store.requeue(&events[0], "ann".into()).await.expect("it is failed");
    assert_nothing_claimable(&store).await;
    apply(&store, &lease, success()).await;
    assert_eq!(claim_one(&store).await.event_id, events[0]);
}

pub async fn a_line_delays_no_other_destination(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    fifo_endpoint(&store, &app).await;
    let free = endpoint(&store, &app).await;
    for _ in 0..5 {
        publish_one(&store, &app).await;
    }
    let leases = claim_all(&store).await;
    assert_eq!(leases.len(), 6);
    assert_eq!(leases.iter().filter(|lease| lease.destination_id == free.destination()).count(), 5);
}

pub async fn concurrent_claims_grant_one_event_of_a_line(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = fifo_endpoint(&store, &app).await;
    publish_events(&store, &app, &endpoint, 8).await;
    let handles = [harness.store(), harness.second_handle(), harness.store(), harness.second_handle()];
    let requests = ["a", "b", "c", "d"].map(claim_by);
    let claims = handles.iter().zip(&requests).map(|(handle, request)| claim(handle, request));
    let granted: usize =
        futures_util::future::join_all(claims).await.iter().map(|claimed| claimed.leases.len()).sum();
    assert_eq!(granted, 1);
}
