//! Building blocks of the cases of the registry: applications, endpoints, messages and their events.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use posthaste_domain::seal::{MasterKeys, SealedId, SealedValue};
use posthaste_domain::signature::KeyKind;
use posthaste_domain::{
    ApplicationRef, ApplicationSpec, DestinationId, EndpointChange, EndpointRef, EndpointSpec, EventId,
    EventTypeName, EventTypeSettings, Lease, MessageRef, MessageSpec, NewApplication, NewEndpoint,
    NewEventType, NewMessage, OrgId,
};
use posthaste_store::{
    Answer, AnswerKey, AnswerSlot, AppScope, Application, Endpoint, EventView, IfTaken, MessageView, NewKey,
    NewSecrets, Publication, PublishRequest, StoreError,
};

use crate::fixture::*;

pub(crate) const URL: &str = "https://receiver.example/hook";

pub(crate) fn org() -> OrgId {
    OrgId::default_org()
}

/// An application of the default organisation, through which a case makes its calls.
pub(crate) struct App {
    pub(crate) org: OrgId,
    pub(crate) app: ApplicationRef,
    pub(crate) application: Application,
}

impl App {
    pub(crate) fn scope(&self) -> AppScope<'_> {
        AppScope { org: &self.org, app: &self.app }
    }
}

pub(crate) fn new_app(name: &str) -> NewApplication {
    let spec = ApplicationSpec { name: name.to_owned(), ..ApplicationSpec::default() };
    NewApplication::accept(spec).expect("cases use valid applications")
}

pub(crate) fn app_with_uid(uid: &str) -> NewApplication {
    let spec =
        ApplicationSpec { name: "app".to_owned(), uid: Some(uid.to_owned()), ..ApplicationSpec::default() };
    NewApplication::accept(spec).expect("cases use valid applications")
}

pub(crate) async fn add_app(store: &Handle, new: &NewApplication) -> App {
    let created = store.applications().create(&org(), new, IfTaken::Refuse, None).await;
    let application = created.expect("the application is accepted").value;
    App { org: org(), app: ApplicationRef::Id(application.id), application }
}

/// Adds an application with default fields.
pub(crate) async fn app(store: &Handle) -> App {
    add_app(store, &new_app("app")).await
}

/// Returns a sealed value with an id of its own.
pub(crate) fn sealed(text: &str) -> SealedValue {
    static SEALED: AtomicU64 = AtomicU64::new(0);
    let id = SealedId::random(u128::from(SEALED.fetch_add(1, Ordering::Relaxed)).to_be_bytes());
    MasterKeys::none().seal(id, text.as_bytes(), [0; 12])
}

pub(crate) fn new_key(text: &str) -> NewKey {
    NewKey { kind: KeyKind::Hmac, sealed: sealed(text) }
}

pub(crate) fn new_secrets() -> NewSecrets {
    NewSecrets { key: new_key("first"), headers: None }
}

pub(crate) fn endpoint_spec() -> EndpointSpec {
    EndpointSpec { url: URL.to_owned(), ..EndpointSpec::default() }
}

pub(crate) fn new_endpoint(spec: EndpointSpec) -> NewEndpoint {
    NewEndpoint::accept(spec).expect("cases use valid endpoints")
}

pub(crate) async fn try_add_endpoint(
    store: &Handle,
    app: &App,
    spec: EndpointSpec,
) -> Result<Endpoint, StoreError> {
    store.endpoints().create(app.scope(), &new_endpoint(spec), &new_secrets(), None).await
}

pub(crate) async fn add_endpoint(store: &Handle, app: &App, spec: EndpointSpec) -> Endpoint {
    try_add_endpoint(store, app, spec).await.expect("the endpoint is accepted")
}

/// Adds an endpoint that gets all messages of its application.
pub(crate) async fn endpoint(store: &Handle, app: &App) -> Endpoint {
    add_endpoint(store, app, endpoint_spec()).await
}

/// Adds an endpoint that gets the messages of one event type, which is registered.
pub(crate) async fn endpoint_of_type(store: &Handle, app: &App, name: &str) -> Endpoint {
    register(store, name).await;
    let spec = EndpointSpec { event_types: Some(vec![name.to_owned()]), ..endpoint_spec() };
    add_endpoint(store, app, spec).await
}

pub(crate) fn by_id(endpoint: &Endpoint) -> EndpointRef {
    EndpointRef::Id(endpoint.id)
}

pub(crate) async fn update_endpoint(
    store: &Handle,
    app: &App,
    of: &Endpoint,
    change: EndpointChange,
) -> Endpoint {
    let updated = store.endpoints().update(app.scope(), &by_id(of), &change, "ann").await;
    updated.expect("the change is accepted")
}

pub(crate) async fn set_disabled(store: &Handle, app: &App, of: &Endpoint, is_disabled: bool) -> Endpoint {
    let change = EndpointChange { is_disabled: Some(is_disabled), ..EndpointChange::default() };
    update_endpoint(store, app, of, change).await
}

pub(crate) fn type_name(name: &str) -> EventTypeName {
    EventTypeName::new(name).expect("cases use valid names")
}

pub(crate) fn new_type(name: &str) -> NewEventType {
    NewEventType { name: type_name(name), settings: EventTypeSettings::default() }
}

/// Registers an event type, if it is not registered yet.
pub(crate) async fn register(store: &Handle, name: &str) {
    store.event_types().put(&org(), &new_type(name)).await.expect("the store is up");
}

pub(crate) fn message_spec() -> MessageSpec {
    MessageSpec {
        event_type: "invoice.paid".to_owned(),
        payload: Bytes::from_static(br#"{"amount": 1.0}"#),
        ..MessageSpec::default()
    }
}

pub(crate) fn new_message(spec: MessageSpec) -> NewMessage {
    NewMessage::accept(spec, 1 << 20, policy().max_attempts()).expect("cases publish valid messages")
}

pub(crate) fn publish_request(app: &App, spec: MessageSpec) -> PublishRequest {
    PublishRequest::new(app.org.clone(), app.app.clone(), new_message(spec))
}

pub(crate) async fn try_publish(store: &Handle, request: &PublishRequest) -> Result<Publication, StoreError> {
    store.messages().publish(request).await
}

/// Publishes a message and returns it with the number of its events.
pub(crate) async fn publish(store: &Handle, app: &App, spec: MessageSpec) -> Publication {
    try_publish(store, &publish_request(app, spec)).await.expect("the message is accepted")
}

/// Publishes a message with default fields.
pub(crate) async fn publish_one(store: &Handle, app: &App) -> MessageView {
    publish(store, app, message_spec()).await.message
}

pub(crate) fn ref_to(message: &MessageView) -> MessageRef {
    MessageRef::Id(message.id)
}

/// The id of the first event of a message for an endpoint.
pub(crate) fn event_of(message: &MessageView, endpoint: &Endpoint) -> EventId {
    EventId::of_fan_out(message.id, endpoint.destination())
}

pub(crate) async fn event_view(store: &Handle, message: &MessageView, endpoint: &Endpoint) -> EventView {
    view(store, &event_of(message, endpoint)).await
}

/// The destinations of leases, sorted.
pub(crate) fn destinations_of(leases: &[Lease]) -> Vec<DestinationId> {
    let mut destinations: Vec<DestinationId> = leases.iter().map(|lease| lease.destination_id).collect();
    destinations.sort();
    destinations
}

pub(crate) fn names(texts: &[&str]) -> Option<BTreeSet<EventTypeName>> {
    Some(texts.iter().map(|text| type_name(text)).collect())
}

/// A slot that keeps an answer with the status 201 for an hour.
pub(crate) fn slot<T>(number: u8) -> AnswerSlot<T> {
    AnswerSlot {
        key: AnswerKey([number; 32]),
        fingerprint: [7; 32],
        keep_for: HOUR,
        render: Arc::new(|_| Answer { status: 201, body: Bytes::from_static(b"{}") }),
    }
}
