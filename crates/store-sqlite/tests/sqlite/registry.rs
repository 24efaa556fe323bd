//! The registry beyond the conformance suite: large backlogs, changes of order, and retention.

use std::time::Duration;

use posthaste_domain::{DeliveryOrder, EndpointChange, EndpointRef, EndpointSpec, FailureKind, OrgId};
use posthaste_store::{
    AppScope, ClaimRequest, DELETE_CANCELS_MAX, Endpoint, EventQuery, ListRequest, MessageFilter,
    PageRequest, Retention, Store as _,
};

use crate::registry_support::{add_app, add_endpoint, app};
use crate::support::{Fixture, HOUR, attempt_all, claim, settlement, worker};

/// Publishes messages of the application of the tests, through the view.
fn publish(fixture: &Fixture, count: usize) {
    let mut db = fixture.sql();
    let transaction = db.transaction().unwrap();
    let sql = "INSERT INTO webhook_publish (app, event_type, payload, created_at) VALUES ('customer-1', 't', '{}', ?1)";
    let now = posthaste_store::StoreClock::now(fixture.clock.as_ref()).as_micros();
    for _ in 0..count {
        transaction.execute(sql, [now]).unwrap();
    }
    transaction.commit().unwrap();
}

async fn count_messages(fixture: &Fixture) -> usize {
    let (org, app) = (OrgId::default_org(), app());
    let scope = AppScope { org: &org, app: &app };
    let (filter, request) = (MessageFilter::default(), ListRequest::default());
    fixture.store.messages().list(scope, &filter, &request, false).await.unwrap().items.len()
}

async fn update(fixture: &Fixture, endpoint: &Endpoint, change: EndpointChange) {
    let (org, app) = (OrgId::default_org(), app());
    let (scope, named) = (AppScope { org: &org, app: &app }, EndpointRef::Id(endpoint.id));
    fixture.store.endpoints().update(scope, &named, &change, "ann").await.unwrap();
}

#[tokio::test]
async fn an_endpoint_that_changes_to_fifo_waits_for_the_leases_that_are_held() {
    let fixture = Fixture::new();
    add_app(&fixture.store).await;
    let endpoint = add_endpoint(&fixture.store, 1, EndpointSpec::default()).await;
    publish(&fixture, 4);
    let request = ClaimRequest { limit: 2, ..claim() };
    let leases = fixture.store.claim(&request).await.unwrap().leases;
    assert_eq!(leases.len(), 2);
    update(
        &fixture,
        &endpoint,
        EndpointChange { order: Some(DeliveryOrder::Fifo), ..EndpointChange::default() },
    )
    .await;
    for lease in &leases {
        assert_eq!(fixture.store.claim(&claim()).await.unwrap().leases.len(), 0);
        fixture.store.settle(&worker(), &[settlement(lease, 200)]).await.unwrap();
    }
    for _ in 0..2 {
        assert_eq!(attempt_all(&fixture.store, 200).await, 1, "one at a time");
    }
    publish(&fixture, 2);
    update(
        &fixture,
        &endpoint,
        EndpointChange { order: Some(DeliveryOrder::Any), ..EndpointChange::default() },
    )
    .await;
    assert_eq!(attempt_all(&fixture.store, 200).await, 2);
}

#[tokio::test]
async fn maintenance_cancels_what_the_deletion_of_an_endpoint_left() {
    let fixture = Fixture::new();
    add_app(&fixture.store).await;
    let endpoint = add_endpoint(&fixture.store, 1, EndpointSpec::default()).await;
    publish(&fixture, DELETE_CANCELS_MAX + 5);
    let (org, app) = (OrgId::default_org(), app());
    let (scope, named) = (AppScope { org: &org, app: &app }, EndpointRef::Id(endpoint.id));
    fixture.store.endpoints().delete(scope, &named, "ann").await.unwrap();
    assert_eq!(fixture.store.overview().await.unwrap().pending, 5);
    let keep_all = Retention {
        keep_for: None,
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 2,
    };
    while fixture.store.maintain(&keep_all).await.unwrap().has_more {}
    let overview = fixture.store.overview().await.unwrap();
    assert_eq!((overview.pending, overview.cancelled), (0, u64::try_from(DELETE_CANCELS_MAX).unwrap() + 5));

    let query = EventQuery { endpoint: Some(endpoint.id), ..EventQuery::default() };
    let events = fixture.store.events(&query, &PageRequest::default()).await.unwrap().items;
    assert_eq!(events[0].failure_kind, Some(FailureKind::Cancelled));
    fixture.store.requeue(&events[0].event_id, "ann".into()).await.unwrap();
    assert_eq!(fixture.store.overview().await.unwrap().pending, 1);
    fixture.store.maintain(&keep_all).await.unwrap();
    assert_eq!(fixture.store.overview().await.unwrap().pending, 0, "its endpoint is deleted");
}

#[tokio::test]
async fn retention_removes_old_messages_that_no_event_refers_to() {
    let fixture = Fixture::new();
    add_app(&fixture.store).await;
    publish(&fixture, 3);
    add_endpoint(&fixture.store, 1, EndpointSpec::default()).await;
    publish(&fixture, 2);
    let leases = fixture.store.claim(&ClaimRequest { limit: 1, ..claim() }).await.unwrap().leases;
    fixture.store.settle(&worker(), &[settlement(&leases[0], 200)]).await.unwrap();
    fixture.clock.advance(HOUR);
    publish(&fixture, 1);
    let keep_for = Some(Duration::from_secs(60));
    let retention =
        Retention { keep_for, keep_dead_letters_for: None, keep_unused_destinations_for: None, rows_max: 2 };
    for _ in 0..2 {
        while fixture.store.maintain(&retention).await.unwrap().has_more {}
    }
    assert_eq!(count_messages(&fixture).await, 2, "one has a pending event, the other is new");
}

#[tokio::test]
async fn an_expired_payload_is_removed_once_no_event_of_it_is_pending() {
    let fixture = Fixture::new();
    add_app(&fixture.store).await;
    publish(&fixture, 1);
    add_endpoint(&fixture.store, 1, EndpointSpec::default()).await;
    publish(&fixture, 1);
    fixture.clock.advance(91 * 24 * HOUR);
    let keep_all = Retention {
        keep_for: None,
        keep_dead_letters_for: None,
        keep_unused_destinations_for: None,
        rows_max: 10,
    };
    fixture.store.maintain(&keep_all).await.unwrap();
    let payloads = || -> i64 {
        let sql = "SELECT count(*) FROM webhook_messages WHERE payload IS NOT NULL";
        fixture.sql().query_row(sql, [], |row| row.get(0)).unwrap()
    };
    assert_eq!(payloads(), 1, "an event of it is pending");
    assert_eq!(attempt_all(&fixture.store, 200).await, 1);
    fixture.store.maintain(&keep_all).await.unwrap();
    assert_eq!(payloads(), 0);
}
