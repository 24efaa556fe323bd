//! Builders for the tests of the registry.

use posthaste_domain::seal::{MasterKeys, SealedId};
use posthaste_domain::signature::KeyKind;
use posthaste_domain::{
    ApplicationRef, ApplicationSpec, EndpointSpec, NewApplication, NewEndpoint, OrgId, Uid,
};
use posthaste_store::{AppScope, Endpoint, IfTaken, NewKey, NewSecrets, Store as _};
use posthaste_store_sqlite::SqliteStore;

/// The application of the tests, by its uid.
pub(crate) fn app() -> ApplicationRef {
    ApplicationRef::Uid(Uid::for_application("customer-1").unwrap())
}

pub(crate) async fn add_app(store: &SqliteStore) {
    let spec = ApplicationSpec {
        name: "a".to_owned(),
        uid: Some("customer-1".to_owned()),
        ..ApplicationSpec::default()
    };
    let new = NewApplication::accept(spec).unwrap();
    store.applications().create(&OrgId::default_org(), &new, IfTaken::Refuse, None).await.unwrap();
}

/// Adds an endpoint with a key of this number.
pub(crate) async fn add_endpoint(store: &SqliteStore, number: u8, spec: EndpointSpec) -> Endpoint {
    let new =
        NewEndpoint::accept(EndpointSpec { url: "https://receiver.example/".to_owned(), ..spec }).unwrap();
    let sealed = MasterKeys::none().seal(SealedId::random([number; 16]), b"secret", [0; 12]);
    let secrets = NewSecrets { key: NewKey { kind: KeyKind::Hmac, sealed }, headers: None };
    let (org, app) = (OrgId::default_org(), app());
    store.endpoints().create(AppScope { org: &org, app: &app }, &new, &secrets, None).await.unwrap()
}
