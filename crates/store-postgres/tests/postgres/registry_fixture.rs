//! Applications and endpoints for tests of publishing.

use std::collections::BTreeSet;

use bytes::Bytes;
use posthaste_domain::seal::{MasterKeys, SealedId};
use posthaste_domain::signature::KeyKind;
use posthaste_domain::{
    ApplicationRef, ApplicationSpec, DeliveryOrder, EndpointRef, EndpointSpec, MessageSpec, NewApplication,
    NewEndpoint, NewMessage, OrgId,
};
use posthaste_store::{
    AppScope, Endpoint, IfTaken, NewKey, NewSecrets, Publication, PublishRequest, Store, StoreError,
};

use crate::fixture::URL;

/// The uid of the application of these tests.
pub(crate) const APP: &str = "customer-1";

pub(crate) fn app_ref() -> ApplicationRef {
    ApplicationRef::parse(APP).unwrap()
}

/// Adds the application.
pub(crate) async fn add_app(store: &dyn Store) {
    let spec = ApplicationSpec { name: "app".into(), uid: Some(APP.into()), ..ApplicationSpec::default() };
    let new = NewApplication::accept(spec).unwrap();
    store.applications().create(&OrgId::default_org(), &new, IfTaken::Refuse, None).await.unwrap();
}

pub(crate) fn secrets(number: u128) -> NewSecrets {
    let sealed = MasterKeys::none().seal(SealedId::random(number.to_be_bytes()), b"key", [0; 12]);
    NewSecrets { key: NewKey { kind: KeyKind::Hmac, sealed }, headers: None }
}

/// Adds an endpoint. Its number makes its key unique.
pub(crate) async fn add_endpoint(store: &dyn Store, number: u128, spec: EndpointSpec) -> Endpoint {
    let new = NewEndpoint::accept(EndpointSpec { url: URL.into(), ..spec }).unwrap();
    let (org, app) = (OrgId::default_org(), app_ref());
    let scope = AppScope { org: &org, app: &app };
    store.endpoints().create(scope, &new, &secrets(number), None).await.unwrap()
}

pub(crate) fn in_fifo_order() -> EndpointSpec {
    EndpointSpec { order: DeliveryOrder::Fifo, ..EndpointSpec::default() }
}

pub(crate) fn message() -> MessageSpec {
    MessageSpec {
        event_type: "invoice.paid".into(),
        payload: Bytes::from_static(br#"{"amount": 1.0}"#),
        ..MessageSpec::default()
    }
}

pub(crate) async fn publish(store: &dyn Store) -> Result<Publication, StoreError> {
    let message = NewMessage::accept(message(), 1 << 20, 6).unwrap();
    store.messages().publish(&PublishRequest::new(OrgId::default_org(), app_ref(), message)).await
}

pub(crate) fn by_id(endpoint: &Endpoint) -> EndpointRef {
    EndpointRef::Id(endpoint.id)
}

/// The distinct numbers of the destinations of leases.
pub(crate) fn destinations(leases: &[posthaste_domain::Lease]) -> BTreeSet<i64> {
    leases.iter().map(|lease| lease.destination_id.0).collect()
}
