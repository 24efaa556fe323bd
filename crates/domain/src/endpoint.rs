//! Endpoints: registered destinations, each with its own secret, subscription and settings.

use crate::{
    DestinationUrl, InvalidDestination, InvalidMetadata, InvalidSubscription, InvalidThrottle, InvalidUid,
    Metadata, Subscription, Throttle, Uid,
};

/// Longest description of an endpoint, in characters.
const DESCRIPTION_LEN_MAX: usize = 1_024;

/// Why an endpoint gets no requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DisableReason {
    /// A caller or an operator disabled it.
    Manual,
    /// The receiver responded with status 410.
    Gone,
    /// The receiver has been failing for too long.
    Failing,
}

named_variants!(DisableReason {
    Manual => "manual",
    Gone => "gone",
    Failing => "failing",
});

/// The order in which the events of an endpoint are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeliveryOrder {
    /// Any order; many requests at a time.
    #[default]
    Any,
    /// The order in which their messages were committed, one request at a time. A retry holds the events behind it.
    Fifo,
}

named_variants!(DeliveryOrder {
    Any => "any",
    Fifo => "fifo",
});

/// An endpoint as a caller submits it, not yet validated.
#[derive(Debug, Clone, Default)]
pub struct EndpointSpec {
    pub url: String,
    pub uid: Option<String>,
    pub description: String,
    pub is_disabled: bool,
    pub event_types: Option<Vec<String>>,
    pub channels: Option<Vec<String>>,
    pub throttle_per_second: Option<i64>,
    pub order: DeliveryOrder,
    pub metadata: std::collections::BTreeMap<String, String>,
}

/// A validated endpoint, ready to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewEndpoint {
    pub url: DestinationUrl,
    pub uid: Option<Uid>,
    pub description: Description,
    pub is_disabled: bool,
    pub subscription: Subscription,
    pub throttle: Option<Throttle>,
    pub order: DeliveryOrder,
    pub metadata: Metadata,
}

/// The description of an endpoint or an event type: up to 1,024 characters, empty if there is none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description(String);

/// Why an endpoint was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    #[error(transparent)]
    Url(#[from] InvalidDestination),
    #[error(transparent)]
    Uid(#[from] InvalidUid),
    #[error("a description must have at most {DESCRIPTION_LEN_MAX} characters, without NUL")]
    Description,
    #[error(transparent)]
    Subscription(#[from] InvalidSubscription),
    #[error(transparent)]
    Throttle(#[from] InvalidThrottle),
    #[error(transparent)]
    Metadata(#[from] InvalidMetadata),
}

impl Description {
    /// Validates a description.
    pub fn new(text: &str) -> Result<Self, InvalidEndpoint> {
        let is_valid = text.chars().count() <= DESCRIPTION_LEN_MAX && !text.contains('\0');
        if is_valid { Ok(Self(text.to_owned())) } else { Err(InvalidEndpoint::Description) }
    }

    /// Wraps a description read from a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl NewEndpoint {
    /// Validates an endpoint. Whether its event types are registered is for the store to check.
    pub fn accept(spec: EndpointSpec) -> Result<Self, InvalidEndpoint> {
        Ok(Self {
            url: DestinationUrl::parse(&spec.url)?,
            uid: spec.uid.as_deref().map(Uid::for_endpoint).transpose()?,
            description: Description::new(&spec.description)?,
            is_disabled: spec.is_disabled,
            subscription: Subscription::accept(spec.event_types.as_deref(), spec.channels.as_deref())?,
            throttle: spec.throttle_per_second.map(Throttle::new).transpose()?,
            order: spec.order,
            metadata: Metadata::new(spec.metadata)?,
        })
    }
}

/// A change of an endpoint. `None` leaves a field as it is; an inner `None` clears it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EndpointChange {
    pub url: Option<DestinationUrl>,
    pub uid: Option<Option<Uid>>,
    pub description: Option<Description>,
    /// `Some(true)` disables the endpoint, `Some(false)` enables it.
    pub is_disabled: Option<bool>,
    pub event_types: Option<Option<std::collections::BTreeSet<crate::EventTypeName>>>,
    pub channels: Option<Option<std::collections::BTreeSet<crate::Channel>>>,
    pub throttle: Option<Option<Throttle>>,
    pub order: Option<DeliveryOrder>,
    pub metadata: Option<Metadata>,
}

impl From<NewEndpoint> for EndpointChange {
    /// Replaces every field.
    fn from(new: NewEndpoint) -> Self {
        Self {
            url: Some(new.url),
            uid: Some(new.uid),
            description: Some(new.description),
            is_disabled: Some(new.is_disabled),
            event_types: Some(new.subscription.event_types),
            channels: Some(new.subscription.channels),
            throttle: Some(new.throttle),
            order: Some(new.order),
            metadata: Some(new.metadata),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> EndpointSpec {
        EndpointSpec { url: "https://receiver.example/hook".to_owned(), ..EndpointSpec::default() }
    }

    #[test]
    fn omitted_fields_get_their_defaults() {
        let endpoint = NewEndpoint::accept(spec()).unwrap();
        assert_eq!((endpoint.description.as_str(), endpoint.is_disabled), ("", false));
        assert_eq!(endpoint.subscription, Subscription::default());
        assert_eq!((endpoint.order, endpoint.throttle), (DeliveryOrder::Any, None));
    }

    #[test]
    fn every_refusal_names_the_rule() {
        let refusal = |change: fn(&mut EndpointSpec)| {
            let mut spec = spec();
            change(&mut spec);
            NewEndpoint::accept(spec).unwrap_err().to_string()
        };
        assert!(refusal(|spec| spec.url = "nowhere".into()).contains("URL"));
        assert!(refusal(|spec| spec.uid = Some("ep_1".into())).contains("ep_"));
        assert!(refusal(|spec| spec.description = "d".repeat(1_025)).contains("1024"));
        assert!(refusal(|spec| spec.event_types = Some(vec![])).contains("event types"));
        assert!(refusal(|spec| spec.channels = Some(vec![])).contains("channels"));
        assert!(refusal(|spec| spec.throttle_per_second = Some(-1)).contains("throttle"));
    }
}
