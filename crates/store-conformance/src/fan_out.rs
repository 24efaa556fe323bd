//! Publishing: each subscribed endpoint gets exactly one event per message, and no other endpoint gets any.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures_util::future::join_all;
use posthaste_domain::{ApplicationRef, DeliveryStatus, EndpointSpec, EventId, MessageSpec, Trigger, Uid};
use posthaste_store::{Endpoint, ListRequest, PublishRequest, StoreError};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

pub async fn each_subscribed_endpoint_gets_one_event_and_no_other_any(harness: &dyn Harness) {
    let store = harness.store();
    let (one, other) = (app(&store).await, app(&store).await);
    let all = endpoint(&store, &one).await;
    let typed = endpoint_of_type(&store, &one, "invoice.paid").await;
    endpoint_of_type(&store, &one, "invoice.sent").await;
    endpoint(&store, &other).await;
    let published = publish(&store, &one, message_spec()).await;
    assert_eq!(published.event_count, 2);
    let leases = claim_all(&store).await;
    assert_eq!(destinations_of(&leases), [all.destination(), typed.destination()]);
    assert!(leases.iter().all(|lease| lease.message_id == published.message.id));
    assert_nothing_claimable(&store).await;
}

pub async fn a_message_reaches_each_of_a_thousand_endpoints(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let mut endpoints = Vec::new();
    for _ in 0..20 {
        endpoints.extend(join_all((0..50).map(|_| endpoint(&store, &app))).await);
    }
    let published = publish(&store, &app, message_spec()).await;
    assert_eq!(published.event_count, 1_000);
    let mut reached = BTreeSet::new();
    // Each claim takes a hundred events.
    for _ in 0..10 {
        reached.extend(claim_all(&store).await.into_iter().map(|lease| lease.destination_id));
    }
    assert_eq!(reached, endpoints.iter().map(Endpoint::destination).collect());
    assert_nothing_claimable(&store).await;
    publish(&store, &app, message_spec()).await;
    store.applications().delete(app.scope(), "ann").await.expect("the application exists");
    assert_nothing_claimable(&store).await;
}

pub async fn a_message_needs_a_channel_of_an_endpoint_that_has_some(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let channels = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    let any = endpoint(&store, &app).await;
    let spec = EndpointSpec { channels: channels(&["eu", "us"]), ..endpoint_spec() };
    let some = add_endpoint(&store, &app, spec).await;
    let reached = async |names: Option<Vec<String>>| {
        publish(&store, &app, MessageSpec { channels: names, ..message_spec() }).await;
        destinations_of(&claim_all(&store).await)
    };
    let (any, both) = (vec![any.destination()], vec![any.destination(), some.destination()]);
    assert_eq!(reached(None).await, any, "a message without channels misses it");
    assert_eq!(reached(channels(&["apac"])).await, any);
    assert_eq!(reached(channels(&["apac", "eu"])).await, both);
    assert_eq!(reached(channels(&["eu", "us"])).await, both, "it gets one event, not two");
}

pub async fn a_message_without_a_subscriber_is_stored(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let published = publish(&store, &app, message_spec()).await;
    assert_eq!(published.event_count, 0);
    let found = harness.second_handle().messages().get(app.scope(), &ref_to(&published.message), true).await;
    assert_eq!(found, Ok(published.message));
    assert_nothing_claimable(&store).await;
}

pub async fn events_of_a_message_share_its_wire_id_and_its_payload(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoints = [endpoint(&store, &app).await, endpoint(&store, &app).await];
    let payload = Bytes::from_static(b"{\"a\" : 1.0,\n \"b\":\"\\u00e9\"}");
    let message =
        publish(&store, &app, MessageSpec { payload: payload.clone(), ..message_spec() }).await.message;
    let mut leases = claim_all(&store).await;
    leases.sort_by_key(|lease| lease.destination_id);
    for (lease, endpoint) in leases.iter().zip(&endpoints) {
        assert_eq!(lease.event_id, event_of(&message, endpoint));
        assert_eq!(lease.wire_id, EventId::from_message(message.id));
        assert_eq!((&lease.payload, lease.trigger), (&payload.clone().into(), Trigger::Scheduled));
        assert!(lease.profile_version > 0);
        let view = view(&store, &lease.event_id).await;
        assert_eq!(view.webhook_id, Some(endpoint.id.to_string()));
        assert_eq!((view.app, view.wire_id()), (Some(app.application.id), lease.wire_id.clone()));
    }
    let direct = enqueue(&store, event_to("https://direct.example/")).await;
    let lease = claim_one(&store).await;
    assert_eq!((&lease.event_id, &lease.wire_id, lease.profile_version), (&direct, &direct, 0));
}

pub async fn every_field_of_a_message_is_stored(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let spec = MessageSpec {
        uid: Some("order-17".to_owned()),
        channels: Some(vec!["eu".to_owned()]),
        tags: vec!["t".to_owned()],
        content_type: Some("application/cloudevents+json".to_owned()),
        payment_request_id: Some("pr-1".to_owned()),
        session_id: Some("s-1".to_owned()),
        traceparent: Some("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01".to_owned()),
        max_attempts: Some(3),
        ..message_spec()
    };
    let new = new_message(spec.clone());
    let request = PublishRequest { stored_by: Some("orders".to_owned()), ..publish_request(&app, spec) };
    let message = try_publish(&store, &request).await.expect("it is accepted").message;
    assert_eq!((&message.uid, &message.channels, &message.tags), (&new.uid, &new.channels, &new.tags));
    assert_eq!((&message.event_type, message.deliver_at), (&new.event_type, None));
    let lease = claim_one(&store).await;
    assert_eq!((&lease.content_type, &lease.traceparent), (&new.content_type, &new.traceparent));
    assert_eq!((lease.event_type.as_str(), lease.max_attempts), ("invoice.paid", 3));
    let event = view(&store, &lease.event_id).await;
    assert_eq!((event.payment_request_id, event.session_id), (new.payment_request_id, new.session_id));
    assert_eq!(event.stored_by.as_deref(), Some("orders"));
}

pub async fn a_message_with_a_taken_uid_is_refused_as_a_whole(harness: &dyn Harness) {
    let store = harness.store();
    let (one, other) = (app(&store).await, app(&store).await);
    endpoint(&store, &one).await;
    let spec = MessageSpec { uid: Some("order-17".to_owned()), ..message_spec() };
    publish(&store, &one, spec.clone()).await;
    let refused = try_publish(&store, &publish_request(&one, spec.clone())).await;
    assert_eq!(refused, Err(StoreError::UidTaken { uid: "order-17".to_owned() }));
    assert_eq!(claim_all(&store).await.len(), 1);
    publish(&store, &other, spec).await;
}

pub async fn concurrent_messages_with_one_uid_make_one_message(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let spec = MessageSpec { uid: Some("order-17".to_owned()), ..message_spec() };
    let request = publish_request(&app, spec);
    let handles = [harness.store(), harness.second_handle(), harness.store(), harness.second_handle()];
    let published = join_all(handles.iter().map(|handle| try_publish(handle, &request))).await;
    assert_eq!(published.iter().filter(|published| published.is_ok()).count(), 1);
    assert_eq!(claim_all(&store).await.len(), 1);
}

pub async fn a_message_may_bring_its_application_along(harness: &dyn Harness) {
    let store = harness.store();
    let uid = Uid::for_application("customer-1").expect("a valid uid");
    let app = ApplicationRef::Uid(uid);
    let request = PublishRequest {
        create_app: Some(app_with_uid("customer-1")),
        ..PublishRequest::new(org(), app.clone(), new_message(message_spec()))
    };
    let first = try_publish(&store, &request).await.expect("the application is created").message;
    let second = try_publish(&store, &request).await.expect("the application is found").message;
    assert_eq!(first.app, second.app);
    let other = PublishRequest { create_app: Some(app_with_uid("customer-2")), ..request };
    let other =
        PublishRequest { app: ApplicationRef::Uid(Uid::for_application("c").expect("a uid")), ..other };
    assert_eq!(
        try_publish(&store, &other).await,
        Err(StoreError::ApplicationNotFound { app: "c".to_owned() }),
        "an application of another uid is not created"
    );
}

pub async fn a_message_for_one_endpoint_passes_its_filters(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let typed = endpoint_of_type(&store, &app, "invoice.sent").await;
    let request =
        PublishRequest { only_endpoint: Some(by_id(&typed)), ..publish_request(&app, message_spec()) };
    assert_eq!(try_publish(&store, &request).await.map(|published| published.event_count), Ok(1));
    assert_eq!(claim_one(&store).await.destination_id, typed.destination());
    set_disabled(&store, &app, &typed, true).await;
    let disabled = Err(StoreError::EndpointDisabled { endpoint: typed.id.to_string() });
    assert_eq!(try_publish(&store, &request).await, disabled);
}

pub async fn a_publish_wakes_waiting_workers(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    endpoint(&store, &app).await;
    let mut wakeups = store.wakeups();
    publish_one(&store, &app).await;
    assert_woken(&mut wakeups).await;
}

pub async fn events_of_a_message_end_each_on_its_own(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoints =
        [endpoint(&store, &app).await, endpoint(&store, &app).await, endpoint(&store, &app).await];
    let message = publish_one(&store, &app).await;
    let mut leases = claim_all(&store).await;
    leases.sort_by_key(|lease| lease.destination_id);
    apply(&store, &leases[0], success()).await;
    apply(&store, &leases[1], status(500)).await;
    store.cancel(&leases[2].event_id, "ann".into(), None).await.expect("it is pending");
    store.discard(&leases[2].event_id, "ann".into(), None).await.expect("it is failed");
    assert_eq!(event_view(&store, &message, &endpoints[0]).await.status, DeliveryStatus::Delivered);
    assert_eq!(event_view(&store, &message, &endpoints[1]).await.attempts, 1);
    let found = store.messages().get(app.scope(), &ref_to(&message), true).await;
    assert_eq!(found, Ok(message.clone()), "a discarded event leaves the message to the others");
    harness.advance(HOUR).await;
    assert_eq!(claim_one(&store).await.payload, leases[1].payload);
    let list = store.messages().destinations(app.scope(), &ref_to(&message), &ListRequest::default()).await;
    let statuses: Vec<_> = list.expect("the store is up").items.iter().map(|it| it.event.status).collect();
    assert_eq!(statuses, [DeliveryStatus::Pending, DeliveryStatus::Delivered], "by id, descending");
}
