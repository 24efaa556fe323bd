//! Identifiers. Ids that come from outside are validated here, when they are parsed.

use std::fmt;

use uuid::Uuid;

use crate::Timestamp;

/// Longest id accepted from outside, in bytes.
const ID_LEN_MAX: usize = 256;

/// Why an id from outside was refused.
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
    #[error(
        "{value:?} is not the id of an organisation: it must be org_ and 1 to 64 letters, digits, full stops, hyphens or \
         underscores"
    )]
    Organisation { value: String },
}

/// Checks that an id has 1 to [`ID_LEN_MAX`] visible ASCII characters, because ids appear in HTTP headers, URLs and log
/// lines. `what` names the id in the error.
fn validate(what: &'static str, value: String) -> Result<String, InvalidId> {
    let is_length_valid = (1..=ID_LEN_MAX).contains(&value.len());
    if is_length_valid && value.bytes().all(|b| b.is_ascii_graphic()) {
        Ok(value)
    } else {
        Err(InvalidId::Unprintable { what, value: value.chars().take(64).collect() })
    }
}

/// The public id of an event. A receiver sees it as `idempotency-key`, the same on every attempt.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(String);

impl EventId {
    /// Validates an id chosen by a producer.
    ///
    /// A full stop is refused: the signed text is `id.timestamp.body`, so a part of an id with a full stop could pass
    /// for the timestamp of another request.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidId> {
        let value = validate("event_id", value.into())?;
        if value.contains('.') { Err(InvalidId::FullStop { value }) } else { Ok(Self(value)) }
    }

    /// Generates the id of an event whose producer chose none: `msg_` and the 32 hex digits of the message id.
    pub fn from_message(message: MessageId) -> Self {
        Self(message.to_string())
    }

    /// Returns the id of the event that brings a message to an endpoint: the message's id, a hyphen and the number of the
    /// destination. A second event for the same message and endpoint would have the same id, so a store refuses it.
    pub fn of_fan_out(message: MessageId, destination: DestinationId) -> Self {
        Self(format!("{message}-{destination}"))
    }

    /// Returns the id of an extra event that an operator's resend or replay adds: `-r1` for the first one, and so on. A long id
    /// loses its end, so that the new one is not longer than an id may be.
    #[must_use]
    pub fn with_run(&self, run: u32) -> Self {
        let suffix = format!("-r{run}");
        let kept = self.0.get(..ID_LEN_MAX - suffix.len()).unwrap_or(&self.0);
        Self(format!("{kept}{suffix}"))
    }

    /// Wraps an id read from a store. It was validated when its event was accepted.
    pub fn from_stored(text: String) -> Self {
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

/// The id of a worker process, in leases and logs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(String);

impl WorkerId {
    /// Validates a worker id.
    pub fn new(value: impl Into<String>) -> Result<Self, InvalidId> {
        validate("worker id", value.into()).map(Self)
    }

    /// Appends a part that differs at every start, so that a restarted worker is a different lease owner.
    pub fn with_boot_id(name: &str, boot_id: u64) -> Result<Self, InvalidId> {
        Self::new(name).map(|Self(name)| Self(format!("{name}-{boot_id:016x}")))
    }

    /// Wraps an id read from a store.
    pub fn from_stored(text: String) -> Self {
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

/// The id of a message: a UUID of version 7, so that messages sort by the time they were accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MessageId(Uuid);

impl MessageId {
    /// Builds a UUID of version 7 from the time of the store's clock and ten random bytes.
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

/// Defines an id of sixteen random bytes. It is not a counter, because a database failover could roll a counter back.
macro_rules! random_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// Builds the id from random bytes, which the caller draws.
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
    /// The fencing token of a lease, new for every granted lease.
    ///
    /// A write on behalf of a lease names its token and changes nothing once the event has another one.
    LeaseToken
}

random_id! {
    /// The id of one claim. A worker that lost the response repeats the claim under the same id.
    ClaimId
}

impl fmt::Display for LeaseToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A store's internal key of an event row: cheap to index, ordered by insertion, never shown to producers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventKey(pub i64);

/// A store's internal key of a destination. Concurrency limits, circuits and pauses are kept per key.
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
        let id = EventId::from_message(message);
        assert_eq!(id.as_str().len(), 36);
        assert_eq!(id.as_str(), format!("msg_{}", message.as_uuid().simple()));
        assert_eq!(message.as_uuid().get_version_num(), 7);
    }

    #[test]
    fn the_events_of_a_message_have_its_id_the_destination_and_the_run() {
        let message = MessageId::v7(Timestamp::from_secs(1_700_000_000), [7; 10]);
        let id = EventId::of_fan_out(message, DestinationId(17));
        assert_eq!(id.as_str(), format!("msg_{}-17", message.as_uuid().simple()));
        assert_eq!(id.with_run(2).as_str(), format!("{id}-r2"));
        assert_eq!(EventId::new(id.with_run(1).as_str()), Ok(id.with_run(1)), "it is a valid id");
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
    fn message_ids_sort_by_time_of_acceptance() {
        let early = MessageId::v7(Timestamp::from_secs(1), [255; 10]);
        let late = MessageId::v7(Timestamp::from_secs(2), [0; 10]);
        assert!(early < late);
    }

    #[test]
    fn restarted_worker_has_another_id() {
        assert_ne!(WorkerId::with_boot_id("web-1", 1).unwrap(), WorkerId::with_boot_id("web-1", 2).unwrap());
    }
}
