//! Endpoints.

use posthaste_domain::{
    DeliveryOrder, DeliveryStatus, DestinationUrl, DisableReason, EndpointChange, EndpointId, EndpointRef,
    EndpointSpec, FailureKind, Uid,
};
use posthaste_store::{DestinationAction, EndpointStats, ListFrom, ListLimit, ListRequest, StoreError};

use crate::Harness;
use crate::fixture::*;
use crate::registry_fixture::*;

fn by_uid(uid: &str) -> EndpointRef {
    EndpointRef::Uid(Uid::for_endpoint(uid).expect("a valid uid"))
}

fn with_uid(uid: &str) -> EndpointSpec {
    EndpointSpec { uid: Some(uid.to_owned()), ..endpoint_spec() }
}

pub async fn an_endpoint_has_the_fields_it_was_created_with(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    register(&store, "invoice.paid").await;
    let spec = EndpointSpec {
        url: URL.to_owned(),
        uid: Some("primary".to_owned()),
        description: "the first".to_owned(),
        is_disabled: true,
        event_types: Some(vec!["invoice.paid".to_owned()]),
        channels: Some(vec!["eu".to_owned(), "us".to_owned()]),
        throttle_per_second: Some(3),
        order: DeliveryOrder::Fifo,
        metadata: [("team".to_owned(), "a".to_owned())].into(),
    };
    let new = new_endpoint(spec.clone());
    let endpoint = add_endpoint(&store, &app, spec).await;
    let found = harness.second_handle().endpoints().get(app.scope(), &by_uid("primary")).await;
    assert_eq!(found.as_ref(), Ok(&endpoint));
    assert_eq!(store.endpoints().find(endpoint.id).await.as_ref(), Ok(&endpoint));
    assert_eq!((&endpoint.url, &endpoint.uid, &endpoint.description), (&new.url, &new.uid, &new.description));
    assert_eq!((&endpoint.subscription, endpoint.throttle), (&new.subscription, new.throttle));
    assert_eq!(
        (endpoint.order, &endpoint.metadata, endpoint.app),
        (new.order, &new.metadata, app.application.id)
    );
    assert_eq!(endpoint.disabled.map(|disabled| disabled.reason), Some(DisableReason::Manual));
}

pub async fn an_endpoint_is_found_within_its_application_only(harness: &dyn Harness) {
    let store = harness.store();
    let (one, other) = (app(&store).await, app(&store).await);
    let endpoint = add_endpoint(&store, &one, with_uid("primary")).await;
    for named in [by_id(&endpoint), by_uid("primary")] {
        assert_eq!(store.endpoints().get(one.scope(), &named).await.as_ref(), Ok(&endpoint));
        let hidden = store.endpoints().get(other.scope(), &named).await;
        assert_eq!(hidden, Err(StoreError::EndpointNotFound { endpoint: named.to_string() }));
    }
    add_endpoint(&store, &other, with_uid("primary")).await;
}

pub async fn a_taken_uid_of_an_endpoint_is_refused(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    add_endpoint(&store, &app, with_uid("primary")).await;
    let taken = Err(StoreError::UidTaken { uid: "primary".to_owned() });
    assert_eq!(try_add_endpoint(&store, &app, with_uid("primary")).await, taken);
    let second = endpoint(&store, &app).await;
    let uid = Some(Some(Uid::for_endpoint("primary").expect("a valid uid")));
    let change = EndpointChange { uid, ..EndpointChange::default() };
    assert_eq!(store.endpoints().update(app.scope(), &by_id(&second), &change, "ann").await, taken);
}

pub async fn unregistered_event_types_are_refused(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    register(&store, "known").await;
    let types = Some(vec!["known".to_owned(), "unknown".to_owned()]);
    let spec = EndpointSpec { event_types: types, ..endpoint_spec() };
    let refused = Err(StoreError::UnknownEventTypes { names: vec!["unknown".to_owned()] });
    assert_eq!(try_add_endpoint(&store, &app, spec).await, refused);
    let endpoint = endpoint(&store, &app).await;
    let change = EndpointChange { event_types: Some(names(&["unknown"])), ..EndpointChange::default() };
    assert_eq!(store.endpoints().update(app.scope(), &by_id(&endpoint), &change, "ann").await, refused);
}

pub async fn put_replaces_an_endpoint_but_not_its_keys(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let put = async |spec: EndpointSpec| {
        let (named, new) = (by_uid("primary"), new_endpoint(spec));
        store.endpoints().put(app.scope(), &named, &new, &new_secrets(), "ann").await.expect("it is accepted")
    };
    let created = put(endpoint_spec()).await;
    assert!(created.is_new && created.value.uid.is_some());
    let keys = store.endpoints().keys(created.value.destination()).await.expect("the store is up");
    let spec = EndpointSpec { description: "new".to_owned(), ..with_uid("primary") };
    let replaced = put(spec).await;
    assert_eq!((replaced.is_new, replaced.value.id), (false, created.value.id));
    assert_eq!(replaced.value.description.as_str(), "new");
    let kept = store.endpoints().keys(created.value.destination()).await.expect("the store is up");
    assert_eq!((kept.len(), kept), (1, keys));
    let unknown = EndpointRef::Id(EndpointId(posthaste_domain::DestinationId(999_999)));
    let refused = store
        .endpoints()
        .put(app.scope(), &unknown, &new_endpoint(endpoint_spec()), &new_secrets(), "ann")
        .await;
    assert_eq!(refused, Err(StoreError::EndpointNotFound { endpoint: unknown.to_string() }));
}

pub async fn an_update_of_an_endpoint_clears_only_what_it_names(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let spec =
        EndpointSpec { channels: Some(vec!["eu".to_owned()]), throttle_per_second: Some(2), ..with_uid("a") };
    let endpoint = add_endpoint(&store, &app, spec).await;
    let change = EndpointChange { channels: Some(None), uid: Some(None), ..EndpointChange::default() };
    let updated = update_endpoint(&store, &app, &endpoint, change).await;
    assert_eq!((updated.subscription.channels, updated.uid), (None, None));
    assert_eq!((updated.throttle, updated.url), (endpoint.throttle, endpoint.url));
}

pub async fn an_endpoint_and_a_url_are_two_destinations(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    let direct = add_destination(&store, URL).await;
    assert_ne!(direct, endpoint.destination());
    let status = destination_status(&store, endpoint.destination()).await;
    assert_eq!((status.endpoint(), status.app), (Some(endpoint.id), Some(app.application.id)));
    assert_eq!(destination_status(&store, direct).await.endpoint(), None);
    let url = DestinationUrl::parse(URL).expect("a valid URL");
    assert_eq!(store.endpoints().url_destination(&url).await, Ok(direct));
}

pub async fn endpoints_are_listed_newest_first_in_pages_both_ways(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.insert(0, endpoint(&store, &app).await.id);
    }
    let list = async |from| {
        let request = ListRequest { from, limit: ListLimit::new(3).expect("a valid limit") };
        let page = store.endpoints().list(app.scope(), &request).await.expect("the store is up");
        (page.items.into_iter().map(|it| it.id).collect::<Vec<_>>(), page.done)
    };
    assert_eq!(list(ListFrom::Start).await, (ids[..3].to_vec(), false));
    assert_eq!(list(ListFrom::After(ids[2])).await, (ids[3..].to_vec(), true));
    assert_eq!(list(ListFrom::Before(ids[3])).await, (ids[..3].to_vec(), true));
}

pub async fn a_new_url_applies_to_pending_events(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    publish_one(&store, &app).await;
    let url = DestinationUrl::parse("https://elsewhere.example/").expect("a valid URL");
    let change = EndpointChange { url: Some(url.clone()), ..EndpointChange::default() };
    assert_eq!(update_endpoint(&store, &app, &endpoint, change).await.url, url);
    assert_eq!(claim_one(&store).await.destination_url, url);
}

pub async fn deleting_an_endpoint_cancels_its_pending_events(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let (deleted, kept) = (add_endpoint(&store, &app, with_uid("a")).await, endpoint(&store, &app).await);
    let message = publish_one(&store, &app).await;
    store.endpoints().delete(app.scope(), &by_id(&deleted), "ann").await.expect("it is deleted");
    let event = event_view(&store, &message, &deleted).await;
    assert_eq!((event.status, event.failure_kind), (DeliveryStatus::Failed, Some(FailureKind::Cancelled)));
    assert_eq!(event.last_error.as_deref(), Some("manual_cancelled: the endpoint was deleted"));
    assert_eq!(claim_one(&store).await.destination_id, kept.destination());
    let hidden = store.endpoints().get(app.scope(), &by_id(&deleted)).await;
    assert_eq!(hidden, Err(StoreError::EndpointNotFound { endpoint: deleted.id.to_string() }));
    let second = publish(&store, &app, message_spec()).await;
    assert_eq!(second.event_count, 1, "a deleted endpoint gets no message");
    add_endpoint(&store, &app, with_uid("a")).await;
    let audit = store.destination(deleted.destination()).await.expect("its history is kept").audit;
    assert_eq!(audit.last().map(|entry| entry.action), Some(DestinationAction::Delete));
}

pub async fn an_endpoint_counts_its_events_by_state(harness: &dyn Harness) {
    let store = harness.store();
    let app = app(&store).await;
    let endpoint = endpoint(&store, &app).await;
    for outcome in [success(), status(500), status(400)] {
        publish_one(&store, &app).await;
        apply(&store, &claim_one(&store).await, outcome).await;
    }
    publish_one(&store, &app).await;
    let stats = store.endpoints().stats(app.scope(), &by_id(&endpoint), None, None).await;
    let expected = EndpointStats { delivered: 1, pending: 1, retrying: 2, failed: 0 };
    assert_eq!(stats, Ok(expected));
}
