//! Uids: the names that callers choose for their own applications, endpoints and messages, and references by id or uid.

use std::fmt;

use crate::public_id::is_name_byte;
use crate::{ApplicationId, EndpointId, MessageId};

/// Longest uid, in bytes.
const UID_LEN_MAX: usize = 256;

/// A name that a caller chose for a resource: 1 to 256 letters, digits, full stops, hyphens and underscores. It does not start
/// with the prefix of the resource's ids, so a path names a resource by either without ambiguity. It is not `.` or `..`, which
/// HTTP clients remove from paths.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uid(String);

/// Why a uid was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidUid {
    #[error(
        "a uid must be 1 to {UID_LEN_MAX} letters, digits, full stops, hyphens or underscores, and not `.` or `..`, got {shown:?}"
    )]
    Characters { shown: String },
    #[error("a uid must not start with {prefix:?}, with which the ids of this resource start")]
    Prefix { prefix: &'static str },
}

impl Uid {
    /// Validates the uid of an application.
    pub fn for_application(text: &str) -> Result<Self, InvalidUid> {
        Self::new(text, ApplicationId::PREFIX)
    }

    /// Validates the uid of an endpoint.
    pub fn for_endpoint(text: &str) -> Result<Self, InvalidUid> {
        Self::new(text, EndpointId::PREFIX)
    }

    /// Validates the uid of a message, which its producer calls `eventId`.
    pub fn for_message(text: &str) -> Result<Self, InvalidUid> {
        Self::new(text, MessageId::PREFIX)
    }

    fn new(text: &str, prefix: &'static str) -> Result<Self, InvalidUid> {
        let is_name = (1..=UID_LEN_MAX).contains(&text.len()) && text.bytes().all(is_name_byte);
        if !is_name || matches!(text, "." | "..") {
            return Err(InvalidUid::Characters { shown: text.chars().take(64).collect() });
        }
        if text.starts_with(prefix) {
            return Err(InvalidUid::Prefix { prefix });
        }
        Ok(Self(text.to_owned()))
    }

    /// Wraps a uid read from a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Uid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Defines a reference to a resource by its id or by its uid.
macro_rules! reference {
    ($(#[$doc:meta])* $name:ident, $id:ty, $uid:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $name {
            Id($id),
            Uid(Uid),
        }

        impl $name {
            /// Parses a part of a path. `None` if the text is neither an id nor a uid, so that no resource has it.
            pub fn parse(text: &str) -> Option<Self> {
                match <$id>::parse(text) {
                    Some(id) => Some(Self::Id(id)),
                    None => Uid::$uid(text).ok().map(Self::Uid),
                }
            }

            /// The uid, if the reference is by uid.
            pub fn uid(&self) -> Option<&Uid> {
                match self {
                    Self::Id(_) => None,
                    Self::Uid(uid) => Some(uid),
                }
            }
        }

        impl From<$id> for $name {
            fn from(id: $id) -> Self {
                Self::Id(id)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    Self::Id(id) => id.fmt(f),
                    Self::Uid(uid) => uid.fmt(f),
                }
            }
        }
    };
}

reference! {
    /// An application, named by its id or its uid.
    ApplicationRef, ApplicationId, for_application
}

reference! {
    /// An endpoint of an application, named by its id or its uid.
    EndpointRef, EndpointId, for_endpoint
}

reference! {
    /// A message of an application, named by its id or its uid.
    MessageRef, MessageId, for_message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_a_plain_name_without_the_prefix_of_its_resource() {
        for text in ["a", "order-1.v2_X", "ep_1", "...", &"u".repeat(256)] {
            assert_eq!(Uid::for_application(text).unwrap().as_str(), text);
        }
        for text in ["", ".", "..", "a b", "a/b", "caf\u{e9}", &"u".repeat(257)] {
            assert!(matches!(Uid::for_application(text), Err(InvalidUid::Characters { .. })), "{text}");
        }
        assert_eq!(Uid::for_application("app_1"), Err(InvalidUid::Prefix { prefix: "app_" }));
        assert_eq!(Uid::for_endpoint("ep_1"), Err(InvalidUid::Prefix { prefix: "ep_" }));
        assert_eq!(Uid::for_message("msg_1"), Err(InvalidUid::Prefix { prefix: "msg_" }));
    }

    #[test]
    fn a_reference_is_an_id_a_uid_or_nothing() {
        let by_id = ApplicationRef::parse("app_0000000000000011");
        assert_eq!(by_id, Some(ApplicationRef::Id(ApplicationId(17))));
        let by_uid = ApplicationRef::parse("customer-17").unwrap();
        assert_eq!(by_uid.uid().unwrap().as_str(), "customer-17");
        assert_eq!(ApplicationRef::parse("app_unknown"), None);
        assert_eq!(ApplicationRef::parse("a b"), None);
    }
}
