//! The registry as the checker knows it, from the calls that the store has committed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytes::Bytes;
use posthaste_domain::seal::MasterKeys;
use posthaste_domain::signature::EndpointSecret;
use posthaste_domain::{
    ApplicationId, Channel, DeliveryOrder, DestinationId, EventTypeName, MessageId, NewEndpoint,
    Subscription, Timestamp,
};
use posthaste_store::{Application, Endpoint, NewKey, OperationKind};
use posthaste_store_memory::Row;

use super::throttles::TokenBucket;
use super::{Checker, Model};

/// Applications, endpoints, messages and operations that were created.
#[derive(Default)]
pub(super) struct RegistryModel {
    pub(super) endpoints: BTreeMap<DestinationId, ModelEndpoint>,
    /// The throttles of applications that have one.
    pub(super) application_buckets: BTreeMap<ApplicationId, TokenBucket>,
    pub(super) messages: BTreeMap<MessageId, ModelMessage>,
    /// The messages by payload. No two requests of the clients have the same payload.
    pub(super) published: BTreeMap<Bytes, MessageId>,
    /// The endpoints that have had an event of a message, other than by a resend.
    pub(super) fanned_out: BTreeSet<(MessageId, DestinationId)>,
    /// The operations that were started, by endpoint.
    pub(super) operations: Vec<(DestinationId, OperationKind)>,
}

/// An endpoint.
pub(super) struct ModelEndpoint {
    pub(super) app: ApplicationId,
    pub(super) subscription: Subscription,
    pub(super) order: DeliveryOrder,
    /// None if the endpoint has no throttle.
    pub(super) bucket: Option<TokenBucket>,
    pub(super) state: EndpointState,
    /// When the endpoint was deleted.
    pub(super) deleted_at: Option<Timestamp>,
    /// Its keys, oldest first, with those that have retired.
    pub(super) keys: Vec<ModelKey>,
}

/// Whether an endpoint gets requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndpointState {
    Enabled,
    Disabled,
    Deleted,
}

/// A signing key of an endpoint.
pub(super) struct ModelKey {
    pub(super) new: NewKey,
    pub(super) secret: EndpointSecret,
    /// Time since the start of the simulation at which the key was added.
    pub(super) added_at: Duration,
    /// When its successor ends its validity, by the store's clock. None for the newest key.
    pub(super) retires_at: Option<Timestamp>,
    /// Time since the start of the simulation at which its successor was added.
    pub(super) replaced_at: Option<Duration>,
}

/// A published message.
pub(super) struct ModelMessage {
    pub(super) app: ApplicationId,
    pub(super) event_type: EventTypeName,
    pub(super) channels: BTreeSet<Channel>,
    pub(super) payload: Bytes,
    pub(super) max_attempts: u32,
}

impl ModelKey {
    pub(super) fn new(key: &NewKey, added_at: Duration) -> Self {
        let text = MasterKeys::none().open(&key.sealed).expect("the simulation seals without a master key");
        let text = std::str::from_utf8(&text).expect("the simulation seals text");
        let secret = EndpointSecret::parse(text).expect("the simulation uses valid keys");
        Self { new: key.clone(), secret, added_at, retires_at: None, replaced_at: None }
    }
}

impl ModelEndpoint {
    /// Returns whether the endpoint gets a message. Computed independently of the domain's code.
    pub(super) fn subscribes_to(&self, event_type: &EventTypeName, channels: &BTreeSet<Channel>) -> bool {
        let Subscription { event_types, channels: own_channels } = &self.subscription;
        let has_type = event_types.as_ref().is_none_or(|types| types.iter().any(|name| name == event_type));
        let has_channel = |own: &BTreeSet<Channel>| own.iter().any(|channel| channels.contains(channel));
        has_type && own_channels.as_ref().is_none_or(has_channel)
    }
}

impl RegistryModel {
    /// Returns the state of the endpoint that a destination is; none if it is a URL.
    pub(super) fn state_of(&self, destination: DestinationId) -> Option<EndpointState> {
        self.endpoints.get(&destination).map(|endpoint| endpoint.state)
    }

    /// Returns whether a destination gets its events in the order of their commits.
    pub(super) fn is_fifo(&self, destination: DestinationId) -> bool {
        self.endpoints.get(&destination).is_some_and(|endpoint| endpoint.order == DeliveryOrder::Fifo)
    }
}

impl Model {
    /// Returns the payload of an event: its own, or that of its message.
    pub(super) fn payload_of<'a>(&'a self, row: &'a Row) -> &'a Bytes {
        let message = row.message_key.and_then(|_| self.registry.messages.get(&row.message_id));
        message.map_or(&row.payload, |message| &message.payload)
    }
}

impl Checker {
    /// Records an application that was created.
    pub(super) fn record_application(&self, application: &Application) {
        if let Some(throttle) = application.throttle {
            let bucket = TokenBucket::new(throttle.per_second());
            self.model().registry.application_buckets.insert(application.id, bucket);
        }
    }

    /// Records an endpoint that was created, with the fields that the client asked for.
    pub(super) fn record_endpoint(&self, created: &Endpoint, new: &NewEndpoint, key: &NewKey) {
        let endpoint = ModelEndpoint {
            app: created.app,
            subscription: new.subscription.clone(),
            order: new.order,
            bucket: new.throttle.map(|throttle| TokenBucket::new(throttle.per_second())),
            state: if new.is_disabled { EndpointState::Disabled } else { EndpointState::Enabled },
            deleted_at: None,
            keys: vec![ModelKey::new(key, self.clock.elapsed())],
        };
        let mut model = self.model();
        model.counts.registry.endpoints += 1;
        model.registry.endpoints.insert(created.destination(), endpoint);
    }

    /// Records an operation that was started.
    pub(super) fn record_operation(&self, endpoint: DestinationId, kind: OperationKind) {
        let mut model = self.model();
        model.counts.registry.operations += 1;
        model.registry.operations.push((endpoint, kind));
    }

    /// Returns whether a message with this payload was published.
    pub(crate) fn is_published(&self, payload: &Bytes) -> bool {
        self.model().registry.published.contains_key(payload)
    }

    /// Counts a request that the store had answered before its client repeated it.
    pub(crate) fn record_repeated_request(&self) {
        self.model().counts.registry.repeated += 1;
    }
}
