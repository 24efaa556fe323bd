//! Applications and endpoints of the benchmark.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use bytes::Bytes;
use posthaste_domain::seal::{MasterKeys, NONCE_BYTES, SealedId};
use posthaste_domain::signature::{EndpointSecret, Secret};
use posthaste_domain::{
    ApplicationRef, ApplicationSpec, EndpointSpec, EventTypeName, EventTypeSettings, MessageSpec,
    NewApplication, NewEndpoint, NewEventType, NewMessage, OrgId,
};
use posthaste_store::{AppScope, IfTaken, NewKey, NewSecrets, PublishRequest, Store};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::payload::PAYLOAD_BYTES;

/// The type of the messages that are published.
pub(crate) const PUBLISHED_TYPE: &str = "invoice.paid";
/// A type that is not published. Endpoints that subscribe to it get no message.
pub(crate) const OTHER_TYPE: &str = "invoice.voided";
/// Endpoints that are added at the same time. They share commits.
const CONCURRENT_ADDS: usize = 64;

/// The seed of the next task that adds endpoints. Each task has its own, because the ids of secrets are random and unique.
static NEXT_SEED: AtomicU64 = AtomicU64::new(0x00E0_0000);

/// Registers the event types that the endpoints of the benchmark subscribe to.
pub(crate) async fn register_types(store: &Arc<dyn Store>) {
    for name in [PUBLISHED_TYPE, OTHER_TYPE] {
        let name = EventTypeName::new(name).expect("the name is valid");
        let new = NewEventType { name, settings: EventTypeSettings::default() };
        store.event_types().put(&OrgId::default_org(), &new).await.expect("the store is up");
    }
}

/// Adds an application.
pub(crate) async fn add_application(store: &Arc<dyn Store>) -> ApplicationRef {
    let spec = ApplicationSpec { name: "bench".to_owned(), ..ApplicationSpec::default() };
    let new = NewApplication::accept(spec).expect("the application is acceptable");
    let created = store.applications().create(&OrgId::default_org(), &new, IfTaken::Refuse, None).await;
    ApplicationRef::Id(created.expect("the store is up").value.id)
}

/// Adds `count` endpoints that subscribe to one event type.
pub(crate) async fn add_endpoints(
    store: &Arc<dyn Store>,
    app: &ApplicationRef,
    event_type: &'static str,
    count: usize,
) {
    let next = Arc::new(AtomicUsize::new(0));
    let adders: Vec<_> = (0..CONCURRENT_ADDS.min(count))
        .map(|_| {
            let seed = NEXT_SEED.fetch_add(1, Ordering::Relaxed);
            let (store, app, next) = (Arc::clone(store), app.clone(), Arc::clone(&next));
            tokio::spawn(async move {
                let mut random = StdRng::seed_from_u64(seed);
                let org = OrgId::default_org();
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let scope = AppScope { org: &org, app: &app };
                    let (new, secrets) = (endpoint(number, event_type), secrets(&mut random));
                    let added = store.endpoints().create(scope, &new, &secrets, None).await;
                    added.expect("the endpoint is added");
                }
            })
        })
        .collect();
    for adder in adders {
        adder.await.expect("the task does not panic");
    }
}

fn endpoint(number: usize, event_type: &str) -> NewEndpoint {
    let spec = EndpointSpec {
        url: format!("https://endpoint-{number}.example/hook"),
        event_types: Some(vec![event_type.to_owned()]),
        ..EndpointSpec::default()
    };
    NewEndpoint::accept(spec).expect("the endpoint is acceptable")
}

fn secrets(random: &mut StdRng) -> NewSecrets {
    let secret = Secret::from_bytes(random.random::<[u8; 32]>().to_vec()).expect("the length is valid");
    let secret = EndpointSecret::Hmac(secret);
    let (id, nonce) = (SealedId::random(random.random()), random.random::<[u8; NONCE_BYTES]>());
    let sealed = MasterKeys::none().seal(id, secret.reveal().as_bytes(), nonce);
    NewSecrets { key: NewKey { kind: secret.kind(), sealed }, headers: None }
}

/// Builds the request that publishes a message of the usual size.
pub(crate) fn publish_request(app: &ApplicationRef) -> PublishRequest {
    let spec = MessageSpec {
        event_type: PUBLISHED_TYPE.to_owned(),
        payload: Bytes::from(crate::payload::payload(0, PAYLOAD_BYTES)),
        ..MessageSpec::default()
    };
    let message = NewMessage::accept(spec, PAYLOAD_BYTES, 6).expect("the message is acceptable");
    PublishRequest::new(OrgId::default_org(), app.clone(), message)
}
