//! Endpoints in requests and responses.

use std::collections::{BTreeMap, BTreeSet};

use posthaste_domain::{
    Channel, DeliveryOrder, Description, DestinationUrl, EndpointChange, EndpointSpec, EventTypeName,
    InvalidEndpoint, InvalidSubscription, Metadata, NewEndpoint, Subscription, Throttle, Uid,
};
use posthaste_store::{Endpoint, EndpointStats, MessageDestination};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::check_throttles;
use crate::registry::body::nullable;
use crate::registry::error::RegistryError;
use crate::registry::status::MessageStatus;
use crate::timestamp::Rfc3339;

/// How an endpoint's requests are signed: with a secret that its receiver shares, or with a private key of which the receiver
/// has the public key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::registry) enum SecretKind {
    Hmac,
    Ed25519,
}

/// The order in which an endpoint gets its messages: any order, or one at a time in the order of publishing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(in crate::registry) enum Ordering {
    Any,
    Fifo,
}

/// An endpoint to create, or that replaces another. Secret and headers are those of a new endpoint.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EndpointIn {
    /// An absolute http or https URL without credentials or fragment.
    #[schema(max_length = 2048, example = "https://receiver.example/hook")]
    url: String,
    /// A name of your own for the endpoint, unique in the application.
    #[schema(min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    uid: Option<String>,
    #[schema(max_length = 1024)]
    description: Option<String>,
    /// Whether messages are held back.
    disabled: Option<bool>,
    /// The registered event types that the endpoint gets; null for all.
    #[schema(min_items = 1, max_items = 1000, example = json!(null))]
    event_types: Option<Vec<String>>,
    /// The name of `eventTypes` in older SDKs.
    #[schema(min_items = 1, max_items = 1000, example = json!(null))]
    filter_types: Option<Vec<String>>,
    /// The channels of which a message needs one; null for all messages.
    #[schema(min_items = 1, max_items = 10, example = json!(null))]
    channels: Option<Vec<String>>,
    /// Messages per second that the endpoint gets.
    #[schema(minimum = 1, maximum = 1000000)]
    throttle_rate: Option<i64>,
    /// The name of `throttleRate` in older SDKs.
    #[schema(minimum = 1, maximum = 1000000)]
    rate_limit: Option<i64>,
    /// Pairs of text of your own, at most 4 KiB together.
    metadata: Option<BTreeMap<String, String>>,
    ordering: Option<Ordering>,
    /// `whsec_` and the base64 of 24 to 75 bytes, or `whsk_` and the base64 of an Ed25519 key; generated if omitted.
    pub(in crate::registry) secret: Option<String>,
    /// The kind of a generated secret; `hmac` if omitted.
    pub(in crate::registry) secret_type: Option<SecretKind>,
    /// Headers that every request to the endpoint gets.
    #[schema(example = json!({"X-Region": "eu"}))]
    pub(in crate::registry) headers: Option<BTreeMap<String, String>>,
}

/// Fields of an endpoint to change. Null clears a field.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EndpointPatch {
    #[schema(max_length = 2048, example = "https://receiver.example/hook")]
    url: Option<String>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, min_length = 1, max_length = 256, pattern = "^[a-zA-Z0-9\\-_.]+$")]
    uid: Option<Option<String>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<String>, max_length = 1024)]
    description: Option<Option<String>>,
    disabled: Option<bool>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 1000, example = json!(null))]
    event_types: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 1000, example = json!(null))]
    filter_types: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<Vec<String>>, min_items = 1, max_items = 10, example = json!(null))]
    channels: Option<Option<Vec<String>>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 1000000)]
    throttle_rate: Option<Option<i64>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<i64>, minimum = 1, maximum = 1000000)]
    rate_limit: Option<Option<i64>>,
    #[serde(default, deserialize_with = "nullable")]
    #[schema(value_type = Option<BTreeMap<String, String>>)]
    metadata: Option<Option<BTreeMap<String, String>>>,
    ordering: Option<Ordering>,
}

/// An endpoint.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct EndpointOut {
    #[schema(example = "ep_0000000000000011")]
    id: String,
    uid: Option<String>,
    url: String,
    description: String,
    disabled: bool,
    /// Why the endpoint is disabled: `manual`, `gone` after a response with status 410, or `failing` for too long.
    disabled_reason: Option<&'static str>,
    #[schema(value_type = Option<String>, format = DateTime)]
    disabled_at: Option<Rfc3339>,
    event_types: Option<Vec<String>>,
    /// The name of `eventTypes` in older SDKs.
    filter_types: Option<Vec<String>>,
    channels: Option<Vec<String>>,
    throttle_rate: Option<u32>,
    /// The name of `throttleRate` in older SDKs.
    rate_limit: Option<u32>,
    ordering: Ordering,
    metadata: BTreeMap<String, String>,
    /// Always 1, for older SDKs.
    version: u8,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
    #[schema(value_type = String, format = DateTime)]
    updated_at: Rfc3339,
}

/// An endpoint that gets a message, with the state of its event.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(in crate::registry) struct MessageEndpointOut {
    #[serde(flatten)]
    endpoint: EndpointOut,
    /// 0 success, 1 pending, 2 fail, 3 sending, 4 canceled.
    #[schema(maximum = 4)]
    status: u8,
    status_text: &'static str,
    #[schema(value_type = Option<String>, format = DateTime)]
    next_attempt: Option<Rfc3339>,
}

/// The number of an endpoint's messages by state.
#[derive(Serialize, ToSchema)]
#[schema(as = EndpointStats)]
pub(in crate::registry) struct EndpointStatsOut {
    success: u64,
    pending: u64,
    sending: u64,
    /// Failed messages, cancelled ones among them.
    fail: u64,
    /// Always 0: cancelled messages are counted as failed.
    canceled: u64,
}

impl From<Ordering> for DeliveryOrder {
    fn from(ordering: Ordering) -> Self {
        match ordering {
            Ordering::Any => Self::Any,
            Ordering::Fifo => Self::Fifo,
        }
    }
}

impl EndpointIn {
    pub(in crate::registry) fn accept(self) -> Result<NewEndpoint, RegistryError> {
        check_throttles([self.throttle_rate, self.rate_limit]).map_err(|error| invalid(&error.into()))?;
        accept_types(self.filter_types.as_deref())?;
        let spec = EndpointSpec {
            url: self.url,
            uid: self.uid,
            description: self.description.unwrap_or_default(),
            is_disabled: self.disabled.unwrap_or(false),
            event_types: self.event_types.or(self.filter_types),
            channels: self.channels,
            throttle_per_second: self.throttle_rate.or(self.rate_limit),
            order: self.ordering.map(DeliveryOrder::from).unwrap_or_default(),
            metadata: self.metadata.unwrap_or_default(),
        };
        NewEndpoint::accept(spec).map_err(|error| invalid(&error))
    }
}

impl EndpointPatch {
    pub(in crate::registry) fn accept(self) -> Result<EndpointChange, RegistryError> {
        let rates = [self.throttle_rate.flatten(), self.rate_limit.flatten()];
        check_throttles(rates).map_err(|error| invalid(&error.into()))?;
        accept_types(self.filter_types.as_ref().and_then(|names| names.as_deref()))?;
        let event_types = self.event_types.or(self.filter_types);
        let throttle = self.throttle_rate.or(self.rate_limit);
        let throttle = throttle.map(|rate| rate.map(Throttle::new).transpose()).transpose();
        let uid = self.uid.map(|uid| uid.as_deref().map(Uid::for_endpoint).transpose()).transpose();
        let metadata = self.metadata.map(|pairs| Metadata::new(pairs.unwrap_or_default())).transpose();
        let description =
            self.description.map(|text| Description::new(&text.unwrap_or_default())).transpose();
        Ok(EndpointChange {
            url: self
                .url
                .as_deref()
                .map(DestinationUrl::parse)
                .transpose()
                .map_err(|error| invalid(&error.into()))?,
            uid: uid.map_err(|error| invalid(&error.into()))?,
            description: description.map_err(|error| invalid(&error))?,
            is_disabled: self.disabled,
            event_types: event_types.map(|names| accept_types(names.as_deref())).transpose()?,
            channels: self.channels.map(|names| accept_channels(names.as_deref())).transpose()?,
            throttle: throttle.map_err(|error| invalid(&error.into()))?,
            order: self.ordering.map(DeliveryOrder::from),
            metadata: metadata.map_err(|error| invalid(&error.into()))?,
        })
    }
}

fn accept_types(names: Option<&[String]>) -> Result<Option<BTreeSet<EventTypeName>>, RegistryError> {
    let subscription = Subscription::accept(names, None);
    subscription.map(|accepted| accepted.event_types).map_err(|error| invalid(&error.into()))
}

fn accept_channels(names: Option<&[String]>) -> Result<Option<BTreeSet<Channel>>, RegistryError> {
    let subscription = Subscription::accept(None, names);
    subscription.map(|accepted| accepted.channels).map_err(|error| invalid(&error.into()))
}

fn invalid(error: &InvalidEndpoint) -> RegistryError {
    let field = match error {
        InvalidEndpoint::Url(_) => "url",
        InvalidEndpoint::Uid(_) => "uid",
        InvalidEndpoint::Description => "description",
        InvalidEndpoint::Subscription(
            InvalidSubscription::EventType(_) | InvalidSubscription::EventTypeCount(_),
        ) => "eventTypes",
        InvalidEndpoint::Subscription(_) => "channels",
        InvalidEndpoint::Throttle(_) => "throttleRate",
        InvalidEndpoint::Metadata(_) => "metadata",
    };
    RegistryError::in_body(field, error)
}

impl From<&Endpoint> for EndpointOut {
    fn from(endpoint: &Endpoint) -> Self {
        let texts = |types: &BTreeSet<EventTypeName>| types.iter().map(EventTypeName::to_string).collect();
        let event_types: Option<Vec<String>> = endpoint.subscription.event_types.as_ref().map(texts);
        let channels = |set: &BTreeSet<Channel>| set.iter().map(|one| one.as_str().to_owned()).collect();
        let throttle_rate = endpoint.throttle.map(Throttle::per_second);
        Self {
            id: endpoint.id.to_string(),
            uid: endpoint.uid.as_ref().map(Uid::to_string),
            url: endpoint.url.to_string(),
            description: endpoint.description.as_str().to_owned(),
            disabled: endpoint.disabled.is_some(),
            disabled_reason: endpoint.disabled.map(|disabled| disabled.reason.as_str()),
            disabled_at: endpoint.disabled.map(|disabled| disabled.at.into()),
            filter_types: event_types.clone(),
            event_types,
            channels: endpoint.subscription.channels.as_ref().map(channels),
            throttle_rate,
            rate_limit: throttle_rate,
            ordering: match endpoint.order {
                DeliveryOrder::Any => Ordering::Any,
                DeliveryOrder::Fifo => Ordering::Fifo,
            },
            metadata: endpoint.metadata.pairs().clone(),
            version: 1,
            created_at: endpoint.created_at.into(),
            updated_at: endpoint.updated_at.into(),
        }
    }
}

impl MessageEndpointOut {
    pub(in crate::registry) fn new(destination: &MessageDestination, is_expanded: bool) -> Self {
        let status = MessageStatus::of_event(&destination.event, is_expanded);
        Self {
            endpoint: (&destination.endpoint).into(),
            status: status.number(),
            status_text: status.as_str(),
            next_attempt: destination.event.next_attempt_at.map(Rfc3339),
        }
    }
}

impl From<EndpointStats> for EndpointStatsOut {
    fn from(stats: EndpointStats) -> Self {
        Self {
            success: stats.delivered,
            pending: stats.pending,
            sending: stats.retrying,
            fail: stats.failed,
            canceled: 0,
        }
    }
}
