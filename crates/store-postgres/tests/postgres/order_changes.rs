//! Endpoints that change between FIFO order and any order while events are pending.

use posthaste_domain::{DeliveryOrder, EndpointChange, EndpointSpec, OrgId};
use posthaste_store::{AppScope, ClaimRequest, Endpoint, Store, StoreError};
use posthaste_store_conformance::Harness as _;

use crate::fixture::*;
use crate::registry_fixture::*;
use crate::support::PostgresHarness;

async fn set_order(
    store: &dyn Store,
    endpoint: &Endpoint,
    order: DeliveryOrder,
) -> Result<Endpoint, StoreError> {
    let (org, app) = (OrgId::default_org(), app_ref());
    let change = EndpointChange { order: Some(order), ..EndpointChange::default() };
    let scope = AppScope { org: &org, app: &app };
    store.endpoints().update(scope, &by_id(endpoint), &change, "operator").await
}

#[tokio::test]
async fn pending_events_form_a_line_behind_those_that_are_in_flight() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    let endpoint = add_endpoint(&*store, 1, EndpointSpec::default()).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.push(publish(&*store).await.unwrap().message.id);
    }
    let in_flight = store.claim(&ClaimRequest { limit: 2, ..claim_by("worker") }).await.unwrap().leases;
    assert_eq!(in_flight.len(), 2);
    set_order(&*store, &endpoint, DeliveryOrder::Fifo).await.unwrap();
    settle(&*store, &in_flight[..1], 200).await;
    assert_eq!(claim(&*store).await, [], "one of the line is in flight");
    settle(&*store, &in_flight[1..], 200).await;
    for id in &ids[2..4] {
        let lease = claim_one(&*store).await;
        assert_eq!(lease.message_id, *id);
        settle(&*store, &[lease], 200).await;
    }
    ids.push(publish(&*store).await.unwrap().message.id);
    set_order(&*store, &endpoint, DeliveryOrder::Any).await.unwrap();
    assert_eq!(claim(&*store).await.len(), 2, "there is no line any more");
}

#[tokio::test]
async fn the_order_does_not_change_while_a_transaction_publishes() {
    let harness = PostgresHarness::start().await;
    let store = harness.store();
    add_app(&*store).await;
    let endpoint = add_endpoint(&*store, 1, EndpointSpec::default()).await;
    let mut producer = client(&harness.database.url).await;
    let transaction = producer.transaction().await.unwrap();
    let call = format!("SELECT app.publish_webhook('{APP}', 'x', '1')");
    transaction.query_one(call.as_str(), &[]).await.unwrap();
    let busy = set_order(&*store, &endpoint, DeliveryOrder::Fifo).await;
    assert!(matches!(busy, Err(StoreError::Busy { .. })), "{busy:?}");
    transaction.commit().await.unwrap();
    assert_eq!(set_order(&*store, &endpoint, DeliveryOrder::Fifo).await.unwrap().order, DeliveryOrder::Fifo);
    claim_one(&*store).await;
}
