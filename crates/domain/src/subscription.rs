//! Subscriptions: which messages of an application an endpoint gets.

use std::collections::BTreeSet;
use std::fmt;

use crate::public_id::is_name_byte;

/// Longest name of an event type, in bytes.
const EVENT_TYPE_LEN_MAX: usize = 256;
/// Longest name of a channel, in bytes.
const CHANNEL_LEN_MAX: usize = 128;
/// Most channels of an endpoint.
pub const ENDPOINT_CHANNELS_MAX: usize = 10;
/// Most channels of a message.
pub const MESSAGE_CHANNELS_MAX: usize = 5;
/// Most event types to which one endpoint subscribes by name.
pub const SUBSCRIBED_TYPES_MAX: usize = 1_000;

/// The name of an event type: 1 to 256 letters, digits, full stops, hyphens and underscores.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventTypeName(String);

/// The name of a channel: 1 to 128 letters, digits, full stops, hyphens, underscores and colons.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Channel(String);

/// Why a subscription or the channels of a message were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSubscription {
    #[error(
        "an event type must be 1 to {EVENT_TYPE_LEN_MAX} letters, digits, full stops, hyphens or underscores, got {0:?}"
    )]
    EventType(String),
    #[error(
        "a channel must be 1 to {CHANNEL_LEN_MAX} letters, digits, full stops, hyphens, underscores or colons, got {0:?}"
    )]
    Channel(String),
    #[error("there must be 1 to {max} channels, got {count}; leave them out for none")]
    ChannelCount { count: usize, max: usize },
    #[error("there must be 1 to {SUBSCRIBED_TYPES_MAX} event types, got {0}; leave them out for all")]
    EventTypeCount(usize),
}

impl EventTypeName {
    /// Validates a name.
    pub fn new(text: &str) -> Result<Self, InvalidSubscription> {
        if (1..=EVENT_TYPE_LEN_MAX).contains(&text.len()) && text.bytes().all(is_name_byte) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSubscription::EventType(text.chars().take(64).collect()))
        }
    }

    /// Wraps a name read from a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventTypeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Channel {
    /// Validates a name.
    pub fn new(text: &str) -> Result<Self, InvalidSubscription> {
        let is_channel_byte = |byte| is_name_byte(byte) || byte == b':';
        if (1..=CHANNEL_LEN_MAX).contains(&text.len()) && text.bytes().all(is_channel_byte) {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidSubscription::Channel(text.chars().take(64).collect()))
        }
    }

    /// Validates the channels of an endpoint or a message: at least one, at most `max`.
    pub fn new_set(texts: &[String], max: usize) -> Result<BTreeSet<Self>, InvalidSubscription> {
        if !(1..=max).contains(&texts.len()) {
            return Err(InvalidSubscription::ChannelCount { count: texts.len(), max });
        }
        texts.iter().map(|text| Self::new(text)).collect()
    }

    /// Wraps a name read from a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The messages that an endpoint gets: those of some event types or of all, on some channels or whatever their channels.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Subscription {
    /// `None` for all event types, also for those that are registered later.
    pub event_types: Option<BTreeSet<EventTypeName>>,
    /// `None` for all messages. Otherwise a message needs a channel of the set.
    pub channels: Option<BTreeSet<Channel>>,
}

impl Subscription {
    /// The event type under which the index has subscriptions to all types. No event type has this name.
    pub const ALL_TYPES: &str = "*";
    /// The channel under which the index has subscriptions without channels. No channel has this name.
    pub const ANY_CHANNEL: &str = "";

    /// Validates a subscription. Event types and channels may be left out, but an empty list is refused.
    pub fn accept(
        event_types: Option<&[String]>,
        channels: Option<&[String]>,
    ) -> Result<Self, InvalidSubscription> {
        let event_types = match event_types {
            None => None,
            Some(names) if (1..=SUBSCRIBED_TYPES_MAX).contains(&names.len()) => {
                Some(names.iter().map(|name| EventTypeName::new(name)).collect::<Result<_, _>>()?)
            }
            Some(names) => return Err(InvalidSubscription::EventTypeCount(names.len())),
        };
        let channels = channels.map(|names| Channel::new_set(names, ENDPOINT_CHANNELS_MAX)).transpose()?;
        Ok(Self { event_types, channels })
    }

    /// Returns whether an endpoint with this subscription gets a message. A message without channels misses an endpoint that
    /// has some.
    pub fn matches(&self, event_type: &EventTypeName, message_channels: &BTreeSet<Channel>) -> bool {
        let has_type = self.event_types.as_ref().is_none_or(|types| types.contains(event_type));
        let has_channel =
            self.channels.as_ref().is_none_or(|channels| !channels.is_disjoint(message_channels));
        has_type && has_channel
    }

    /// Returns the index entries of the subscription: each of its event types, or [`ALL_TYPES`](Self::ALL_TYPES), with each of
    /// its channels, or [`ANY_CHANNEL`](Self::ANY_CHANNEL). A message matches exactly if it finds one of them under its type
    /// or all types, and one of its channels or any channel.
    pub fn index_entries(&self) -> Vec<(&str, &str)> {
        let types: Vec<&str> = match &self.event_types {
            None => vec![Self::ALL_TYPES],
            Some(types) => types.iter().map(EventTypeName::as_str).collect(),
        };
        let channels: Vec<&str> = match &self.channels {
            None => vec![Self::ANY_CHANNEL],
            Some(channels) => channels.iter().map(Channel::as_str).collect(),
        };
        types.into_iter().flat_map(|name| channels.iter().map(move |channel| (name, *channel))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn subscription(types: Option<&[&str]>, channels: Option<&[&str]>) -> Subscription {
        Subscription::accept(types.map(names).as_deref(), channels.map(names).as_deref()).unwrap()
    }

    fn matches(subscription: &Subscription, event_type: &str, channels: &[&str]) -> bool {
        let channels = channels.iter().map(|channel| Channel::new(channel).unwrap()).collect();
        subscription.matches(&EventTypeName::new(event_type).unwrap(), &channels)
    }

    #[test]
    fn a_subscription_matches_by_type_and_by_channel() {
        let all = subscription(None, None);
        assert!(matches(&all, "invoice.paid", &[]) && matches(&all, "invoice.paid", &["eu"]));
        let typed = subscription(Some(&["invoice.paid"]), None);
        assert!(matches(&typed, "invoice.paid", &["eu"]));
        assert!(!matches(&typed, "invoice.sent", &[]) && !matches(&typed, "invoice", &[]));
        let channelled = subscription(None, Some(&["eu", "us"]));
        assert!(matches(&channelled, "invoice.paid", &["apac", "us"]));
        assert!(!matches(&channelled, "invoice.paid", &["apac"]));
        assert!(!matches(&channelled, "invoice.paid", &[]), "a message without channels misses it");
        let both = subscription(Some(&["invoice.paid"]), Some(&["eu"]));
        assert!(matches(&both, "invoice.paid", &["eu"]) && !matches(&both, "invoice.sent", &["eu"]));
    }

    #[test]
    fn empty_and_long_lists_are_refused() {
        let accept = |types: Option<Vec<String>>, channels: Option<Vec<String>>| {
            Subscription::accept(types.as_deref(), channels.as_deref())
        };
        assert_eq!(accept(Some(vec![]), None), Err(InvalidSubscription::EventTypeCount(0)));
        assert_eq!(
            accept(None, Some(vec!["c".to_owned(); 11])),
            Err(InvalidSubscription::ChannelCount { count: 11, max: 10 })
        );
        assert!(accept(Some(names(&["a b"])), None).unwrap_err().to_string().contains("event type"));
        assert!(accept(None, Some(names(&[""]))).unwrap_err().to_string().contains("channel"));
        assert!(accept(None, Some(names(&["project:17"]))).is_ok());
    }

    proptest! {
        #[test]
        fn the_index_finds_exactly_the_matching_subscriptions(
            types in proptest::option::of(proptest::collection::btree_set("[ab]", 1..3)),
            channels in proptest::option::of(proptest::collection::btree_set("[xyz]", 1..3)),
            event_type in "[abc]",
            message_channels in proptest::collection::btree_set("[xyz]", 0..3),
        ) {
            let subscription = Subscription {
                event_types: types.map(|types| types.into_iter().map(EventTypeName::from_stored).collect()),
                channels: channels.map(|channels| channels.into_iter().map(Channel::from_stored).collect()),
            };
            let message_channels: BTreeSet<Channel> =
                message_channels.into_iter().map(Channel::from_stored).collect();
            let is_found = subscription.index_entries().into_iter().any(|(name, channel)| {
                (name == Subscription::ALL_TYPES || name == event_type)
                    && (channel == Subscription::ANY_CHANNEL
                        || message_channels.iter().any(|wanted| wanted.as_str() == channel))
            });
            let matches = subscription.matches(&EventTypeName::from_stored(event_type), &message_channels);
            prop_assert_eq!(is_found, matches);
        }
    }
}
