//! Tenants: clients of the registry. They create applications and endpoints, publish messages, and administer their endpoints.
//!
//! A tenant repeats each request until the store has served or refused it, under the same idempotency key.

mod administer;
mod publish;
mod request;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use posthaste_domain::seal::{MasterKeys, SealedId};
use posthaste_domain::signature::{Ed25519Key, EndpointSecret, Secret};
use posthaste_domain::{
    ApplicationId, ApplicationRef, ApplicationSpec, DeliveryOrder, DestinationId, EndpointId, EndpointRef,
    EndpointSpec, EventTypeName, EventTypeSettings, MessageId, NewApplication, NewEndpoint, NewEventType,
    OrgId,
};
use posthaste_store::{AppScope, IfTaken, NewKey, NewSecrets, Store};

use crate::client::client_store;
use crate::random::SeededRandom;
use crate::world::World;

pub(crate) use administer::administer;
pub(crate) use publish::publish_all;
use request::{Served, slot};

/// The event types that are registered. Messages have these types, and one that is not registered.
const EVENT_TYPES: [&str; 3] = ["invoice.paid", "invoice.sent", "user.created"];
const CHANNELS: [&str; 3] = ["eu", "us", "apac"];

/// All tenants of a simulation, with what they know of their resources.
pub(crate) struct Tenants {
    world: Arc<World>,
    /// The store as a process without a worker uses it.
    store: Arc<dyn Store>,
    org: OrgId,
    random: SeededRandom,
    /// Number of the next request, key or endpoint.
    next_number: AtomicU64,
    applications: Vec<ApplicationRef>,
    known: Mutex<KnownResources>,
}

/// What the responses of the store have shown.
#[derive(Default)]
struct KnownResources {
    /// The endpoints that are not deleted.
    endpoints: Vec<TenantEndpoint>,
    /// The messages, with the number of their application.
    messages: Vec<(usize, MessageId)>,
}

/// An endpoint, with the number of its application.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TenantEndpoint {
    application: usize,
    id: EndpointId,
}

impl TenantEndpoint {
    fn by_id(&self) -> EndpointRef {
        EndpointRef::Id(self.id)
    }
}

/// Registers the event types, and creates the applications and their first endpoints.
pub(crate) async fn create_tenants(world: &Arc<World>, seed: u64) -> Arc<Tenants> {
    let mut tenants = Tenants {
        world: Arc::clone(world),
        store: client_store(world, "tenant"),
        org: OrgId::default_org(),
        random: SeededRandom::new(seed, 9),
        next_number: AtomicU64::new(0),
        applications: Vec::new(),
        known: Mutex::default(),
    };
    let rules = world.scenario.registry;
    for name in EVENT_TYPES.iter().take(if rules.applications == 0 { 0 } else { EVENT_TYPES.len() }) {
        let name = EventTypeName::new(name).expect("a valid name");
        let new = NewEventType { name, settings: EventTypeSettings::default() };
        tenants.store.event_types().put(&tenants.org, &new).await.expect("the memory store is available");
    }
    for _ in 0..rules.applications {
        let application = tenants.create_application().await;
        tenants.applications.push(application);
    }
    let tenants = Arc::new(tenants);
    for application in 0..rules.applications {
        for _ in 0..rules.endpoints {
            tenants.create_endpoint(application).await;
        }
    }
    tenants
}

impl Tenants {
    async fn create_application(&self) -> ApplicationRef {
        let number = self.next_number();
        let spec = ApplicationSpec {
            name: format!("application {number}"),
            throttle_per_second: self.random.chance(300).then(|| self.rate(2..7)),
            ..ApplicationSpec::default()
        };
        let new = NewApplication::accept(spec).expect("a valid application");
        let slot = slot(number, |created: &posthaste_store::Created<_>| application_number(&created.value));
        let create = || self.store.applications().create(&self.org, &new, IfTaken::Refuse, Some(&slot));
        let id = match self.serve(slot.key, create).await {
            Served::Now(created) => created.value.id,
            Served::Before(number) => ApplicationId(number),
            Served::Refused(error) => unreachable!("a valid application was refused: {error}"),
        };
        ApplicationRef::Id(id)
    }

    /// Creates an endpoint with random settings.
    async fn create_endpoint(&self, application: usize) {
        let number = self.next_number();
        let new = NewEndpoint::accept(self.endpoint_spec(number)).expect("a valid endpoint");
        let secrets = NewSecrets { key: self.new_key(), headers: None };
        let slot = slot(number, |endpoint: &posthaste_store::Endpoint| endpoint.id.0.0);
        let (scope, endpoints) = (self.scope(application), self.store.endpoints());
        let id = match self.serve(slot.key, || endpoints.create(scope, &new, &secrets, Some(&slot))).await {
            Served::Now(endpoint) => endpoint.id,
            Served::Before(number) => EndpointId(DestinationId(number)),
            Served::Refused(error) => return self.world.checker.report_refused(&error),
        };
        self.known().endpoints.push(TenantEndpoint { application, id });
    }

    fn endpoint_spec(&self, number: u64) -> EndpointSpec {
        let random = &self.random;
        let receiver = random.index(self.world.scenario.destinations);
        let some_of = |names: &[&str; 3]| {
            let first = random.index(names.len());
            names
                .iter()
                .cycle()
                .skip(first)
                .take(random.index(2) + 1)
                .map(|name| (*name).to_owned())
                .collect()
        };
        let is_fault_free = self.world.scenario.fault_injection == crate::FaultInjection::Off;
        EndpointSpec {
            url: self.world.destination_of_endpoint(receiver, usize::try_from(number).unwrap_or(0)),
            is_disabled: !is_fault_free && random.chance(100),
            event_types: random.chance(500).then(|| some_of(&EVENT_TYPES)),
            channels: random.chance(300).then(|| some_of(&CHANNELS)),
            throttle_per_second: random.chance(300).then(|| self.rate(1..4)),
            order: if random.chance(400) { DeliveryOrder::Fifo } else { DeliveryOrder::Any },
            ..EndpointSpec::default()
        }
    }

    /// Returns a new key. Most are HMAC secrets.
    fn new_key(&self) -> NewKey {
        let number = self.next_number();
        let mut bytes = [7; 32];
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        let secret = if self.random.chance(850) {
            EndpointSecret::Hmac(Secret::from_bytes(bytes.to_vec()).expect("a valid length"))
        } else {
            EndpointSecret::Ed25519(Ed25519Key::from_seed(bytes))
        };
        let id = SealedId::random(u128::from(number).to_be_bytes());
        let sealed = MasterKeys::none().seal(id, secret.reveal().as_bytes(), [0; 12]);
        NewKey { kind: secret.kind(), sealed }
    }

    fn rate(&self, range: std::ops::Range<u64>) -> i64 {
        i64::try_from(self.random.in_range(range)).expect("a small number")
    }

    fn scope(&self, application: usize) -> AppScope<'_> {
        AppScope { org: &self.org, app: &self.applications[application] }
    }

    /// Returns a random endpoint that is not deleted.
    fn random_endpoint(&self) -> Option<TenantEndpoint> {
        let known = self.known();
        if known.endpoints.is_empty() { None } else { Some(self.random.pick(&known.endpoints)) }
    }

    fn next_number(&self) -> u64 {
        self.next_number.fetch_add(1, Ordering::Relaxed)
    }

    fn known(&self) -> MutexGuard<'_, KnownResources> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn application_number(application: &posthaste_store::Application) -> i64 {
    application.id.0
}
