//! Names of things. Ids that a person or a producer may supply are checked here, once.

use std::fmt;

use uuid::Uuid;

use crate::Timestamp;

/// Longest text accepted as an id from outside.
const ID_LEN_MAX: usize = 256;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidId {
    #[error(
        "{what} {value:?} is not usable: it must be 1 to {ID_LEN_MAX} visible ASCII characters without spaces"
    )]
    Unprintable { what: &'static str, value: String },
    #[error(
        "event_id {value:?} is not usable: a full stop separates it from the timestamp in signatures; use - or _"
    )]
    FullStop { value: String },
}

/// Visible ASCII only, because ids travel in HTTP headers, URLs and log lines.
fn checked(what: &'static str, value: String) -> Result<String, InvalidId> {
    let fits = (1..=ID_LEN_MAX).contains(&value.len());
    if fits && value.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(value)
    } else {
        Err(InvalidId::Unprintable { what, value: value.chars().take(64).collect() })
    }
}

/// The public, stable name of an event; what a receiver sees as `webhook-id` on every attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(String);

impl EventId {
    /// No full stop: what is signed is `id.timestamp.body`, and an id that holds one could pass a part of itself
    /// off as the timestamp of another request.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidId> {
        let value = checked("event_id", value.into())?;
        if value.contains('.') { Err(InvalidId::FullStop { value }) } else { Ok(Self(value)) }
    }

    /// The id of an event whose producer named none: `msg_` and the message's 32 hex digits.
    pub fn of(message: MessageId) -> Self {
        Self(format!("msg_{}", message.0.simple()))
    }

    /// As a store kept it: it was judged when its event was accepted.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Names a worker process in leases and logs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(String);

impl WorkerId {
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidId> {
        checked("worker id", value.into()).map(Self)
    }

    /// A name with a part that differs at every start, so that a restarted worker is another owner.
    pub fn booted(name: &str, boot: u64) -> Result<Self, InvalidId> {
        Self::new(name).map(|Self(name)| Self(format!("{name}-{boot:016x}")))
    }

    /// As a store kept it.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for WorkerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A message's identity: a UUID of version 7, so that messages sort by when they were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(Uuid);

impl MessageId {
    /// Built from the store's clock and ten random bytes of the store's choosing.
    pub fn v7(at: Timestamp, random: [u8; 10]) -> Self {
        let millis = u64::try_from(at.as_micros() / 1_000).unwrap_or(0);
        Self(uuid::Builder::from_unix_timestamp_millis(millis, &random).into_uuid())
    }

    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self(uuid)
    }

    pub const fn as_uuid(self) -> Uuid {
        self.0
    }
}

/// An id that is sixteen random bytes: never a counter, which a failover could roll back.
macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            pub fn random(bytes: [u8; 16]) -> Self {
                Self(uuid::Builder::from_random_bytes(bytes).into_uuid())
            }

            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            pub const fn as_uuid(self) -> Uuid {
                self.0
            }
        }
    };
}

random_id! {
    /// The fence: a fresh token per granted lease. A write names the token it was granted under.
    LeaseToken
}

random_id! {
    /// Names one claim, so that a worker which did not get the answer can ask for it again.
    ClaimId
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A store's own key of an event row: cheap to index, ordered by insertion, never shown to producers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey(pub i64);

/// A store's own key of a destination; limits, circuits and pauses hang on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationId(pub i64);

impl fmt::Display for DestinationId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_event_id_is_msg_and_the_32_hex_digits_of_the_message() {
        let message = MessageId::v7(Timestamp::from_secs(1_700_000_000), [7; 10]);
        let id = EventId::of(message);
        assert_eq!(id.as_str().len(), 36);
        assert_eq!(id.as_str(), format!("msg_{}", message.as_uuid().simple()));
        assert_eq!(message.as_uuid().get_version_num(), 7);
    }

    #[test]
    fn ids_that_could_break_a_header_or_a_log_line_are_refused() {
        for bad in ["", "a.b", "a b", "a\nb", "a\0b", "caf\u{e9}", &"x".repeat(257)] {
            let error = EventId::new(bad).unwrap_err();
            assert!(error.to_string().contains("event_id"), "{error}");
        }
        assert!(EventId::new("order-17/created").is_ok());
    }

    #[test]
    fn messages_sort_by_acceptance() {
        let early = MessageId::v7(Timestamp::from_secs(1), [255; 10]);
        let late = MessageId::v7(Timestamp::from_secs(2), [0; 10]);
        assert!(early < late);
    }

    #[test]
    fn two_boots_of_one_host_are_two_owners() {
        assert_ne!(WorkerId::booted("web-1", 1).unwrap(), WorkerId::booted("web-1", 2).unwrap());
    }
}
