//! The public ids of the registry: a prefix that names the resource, and the hex digits of a key of the store.
//!
//! Callers treat an id as opaque. Hex digits have a fixed number, so ids sort like their keys.

use std::fmt;

use uuid::Uuid;

use crate::{DestinationId, EventKey, InvalidId, LeaseToken, MessageId};

const APPLICATION: &str = "app_";
const ENDPOINT: &str = "ep_";
const MESSAGE: &str = "msg_";
const ATTEMPT: &str = "atmpt_";
const ORGANISATION: &str = "org_";
const OPERATION: &str = "qtask_";
const BULK: &str = "bulk_";

/// Longest part of an organisation's id after its prefix.
const ORGANISATION_LEN_MAX: usize = 64;
/// Hex digits of a 64-bit key.
const KEY_DIGITS: usize = 16;

/// Defines the public id of a row with a 64-bit key.
macro_rules! key_id {
    ($(#[$doc:meta])* $name:ident($key:ty), $prefix:ident, $from:expr, $to:expr) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $key);

        impl $name {
            /// The text with which every id of this kind starts.
            pub const PREFIX: &str = $prefix;

            /// Parses the public form. `None` if the text has another form, so that no row has this id.
            pub fn parse(text: &str) -> Option<Self> {
                parse_key(text.strip_prefix($prefix)?).map($from)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let key: i64 = $to(self);
                write!(f, "{}{key:016x}", $prefix)
            }
        }
    };
}

key_id! {
    /// The id of an application.
    ApplicationId(i64), APPLICATION, Self, |id: &Self| id.0
}

key_id! {
    /// The id of an endpoint, which is the number of its destination.
    EndpointId(DestinationId), ENDPOINT, |key| Self(DestinationId(key)), |id: &Self| id.0.0
}

key_id! {
    /// The id of a background operation on the events of an endpoint.
    OperationId(i64), OPERATION, Self, |id: &Self| id.0
}

key_id! {
    /// The id of a bulk operation on dead letters: `bulk_` and 16 hex digits.
    BulkId(i64), BULK, Self, |id: &Self| id.0
}

/// Parses the canonical hex digits of a key. Keys are not negative.
fn parse_key(digits: &str) -> Option<i64> {
    if digits.len() != KEY_DIGITS || !is_lower_hex(digits) {
        return None;
    }
    i64::from_str_radix(digits, 16).ok()
}

fn is_lower_hex(digits: &str) -> bool {
    digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

impl MessageId {
    /// The text with which the public id of every message starts.
    pub const PREFIX: &str = MESSAGE;

    /// Parses the public form: `msg_` and 32 hex digits.
    pub fn parse(text: &str) -> Option<Self> {
        parse_uuid(text.strip_prefix(MESSAGE)?).map(Self::from_uuid)
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{MESSAGE}{}", self.as_uuid().simple())
    }
}

/// Parses the 32 hex digits of a UUID.
fn parse_uuid(digits: &str) -> Option<Uuid> {
    let is_canonical = digits.len() == 32 && is_lower_hex(digits);
    Uuid::try_parse(digits).ok().filter(|_| is_canonical)
}

/// The id of an attempt: the key of its event and the token of its lease. With the key, a store finds the attempt without an
/// index of all tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttemptId {
    pub event: EventKey,
    pub token: LeaseToken,
}

impl AttemptId {
    /// Parses the public form: `atmpt_`, 16 hex digits of the key and 32 of the token.
    pub fn parse(text: &str) -> Option<Self> {
        let (key, token) = text.strip_prefix(ATTEMPT)?.split_at_checked(KEY_DIGITS)?;
        Some(Self { event: EventKey(parse_key(key)?), token: LeaseToken::from_uuid(parse_uuid(token)?) })
    }
}

impl fmt::Display for AttemptId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ATTEMPT}{:016x}{}", self.event.0, self.token.as_uuid().simple())
    }
}

/// The id of an organisation: a tenant of this instance, which owns applications and event types.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrgId(String);

impl OrgId {
    /// The organisation of the instance's own API keys and of SQL callers.
    pub fn default_org() -> Self {
        Self("org_default".to_owned())
    }

    /// Validates an id: `org_` and 1 to 64 letters, digits, full stops, hyphens or underscores.
    pub fn new(text: &str) -> Result<Self, InvalidId> {
        let is_valid = text.strip_prefix(ORGANISATION).is_some_and(|rest| {
            (1..=ORGANISATION_LEN_MAX).contains(&rest.len()) && rest.bytes().all(is_name_byte)
        });
        match is_valid {
            true => Ok(Self(text.to_owned())),
            false => Err(InvalidId::Organisation { value: text.chars().take(64).collect() }),
        }
    }

    /// Wraps an id read from a store.
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OrgId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns whether a byte may be in a name of the registry: a letter, a digit, a full stop, a hyphen or an underscore.
pub(crate) fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"._-".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Timestamp;

    #[test]
    fn every_id_is_parsed_from_its_own_text() {
        let application = ApplicationId(17);
        assert_eq!(application.to_string(), "app_0000000000000011");
        assert_eq!(ApplicationId::parse("app_0000000000000011"), Some(application));
        let endpoint = EndpointId(DestinationId(i64::MAX));
        assert_eq!(EndpointId::parse(&endpoint.to_string()), Some(endpoint));
        let operation = OperationId(1);
        assert_eq!(OperationId::parse(&operation.to_string()), Some(operation));
        let message = MessageId::v7(Timestamp::from_secs(1_700_000_000), [7; 10]);
        assert_eq!(MessageId::parse(&message.to_string()), Some(message));
        let attempt = AttemptId { event: EventKey(9), token: LeaseToken::random([3; 16]) };
        assert_eq!(AttemptId::parse(&attempt.to_string()), Some(attempt));
    }

    #[test]
    fn other_texts_are_no_ids() {
        for text in
            ["", "app_", "app_11", "app_000000000000001G", "app_000000000000001A", "ep_0000000000000011"]
        {
            assert_eq!(ApplicationId::parse(text), None, "{text}");
        }
        assert_eq!(ApplicationId::parse("app_8000000000000000"), None, "keys are not negative");
        assert_eq!(MessageId::parse("msg_0197"), None);
        assert_eq!(AttemptId::parse("atmpt_00"), None);
        assert_eq!(AttemptId::parse("atmpt_00000000000000\u{e9}9"), None);
    }

    #[test]
    fn ids_sort_like_their_keys() {
        assert!(ApplicationId(9).to_string() < ApplicationId(10).to_string());
    }

    #[test]
    fn an_organisation_has_its_prefix_and_a_plain_name() {
        assert_eq!(OrgId::new("org_a.B-1_").unwrap().as_str(), "org_a.B-1_");
        assert_eq!(OrgId::new("org_default").unwrap(), OrgId::default_org());
        for text in ["org_", "a", "org_a b", "org_\u{e9}", &format!("org_{}", "x".repeat(65))] {
            assert!(OrgId::new(text).unwrap_err().to_string().contains("org_"), "{text}");
        }
    }
}
