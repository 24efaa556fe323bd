//! A worker's time-limited right to attempt an event.
//!
//! A store grants a lease under a new [`LeaseToken`]. The worker renews it by heartbeats while the attempt is in
//! flight. A settle, a release, a cancel, or the takeover of an expired lease ends it. An expired lease that no claim
//! has taken over can still be renewed and settled. Every write of the worker names the token: a write under a token
//! that the row no longer holds changes nothing.

use std::time::Duration;

use bytes::Bytes;

use crate::{DestinationId, DestinationUrl, EventId, EventKey, LeaseToken, MessageId, NewEvent};

/// What caused an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    /// The event was enqueued, or a retry was due.
    Scheduled,
    /// The first attempt after an operator's requeue.
    Manual,
}

impl Trigger {
    /// Returns the cause of the next attempt. `is_requeued` means that the last operator action on the event was a
    /// requeue.
    pub const fn for_attempt(is_requeued: bool, attempts: u32) -> Self {
        if is_requeued && attempts == 0 { Self::Manual } else { Self::Scheduled }
    }
}

named_variants!(Trigger {
    Scheduled => "scheduled",
    Manual => "manual",
});

/// The payload of a leased event. The bytes of a large one are not read with the lease: they would delay all other leases
/// of the same claim.
#[derive(Clone, PartialEq, Eq)]
pub enum LeasePayload {
    /// The bytes to send.
    Loaded(Bytes),
    /// The size of a payload whose bytes are in the store only.
    Stored { bytes: usize },
}

impl LeasePayload {
    /// Returns the size in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Loaded(payload) => payload.len(),
            Self::Stored { bytes } => *bytes,
        }
    }

    /// Returns whether the payload has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether the bytes are in the store only.
    pub fn is_stored(&self) -> bool {
        matches!(self, Self::Stored { .. })
    }

    /// Returns the bytes. Panics if they are in the store only: a worker loads them before it sends the event.
    pub fn expect_loaded(&self) -> &Bytes {
        match self {
            Self::Loaded(payload) => payload,
            Self::Stored { bytes } => panic!("a payload of {bytes} bytes is sent before it is loaded"),
        }
    }

    /// Drops the bytes, and keeps the size.
    pub fn unload(self) -> Self {
        Self::Stored { bytes: self.len() }
    }
}

impl From<Bytes> for LeasePayload {
    fn from(payload: Bytes) -> Self {
        Self::Loaded(payload)
    }
}

/// Shows only the size, so that the bytes never reach a log.
impl std::fmt::Debug for LeasePayload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = if self.is_stored() { "Stored" } else { "Loaded" };
        write!(f, "{name}({} bytes)", self.len())
    }
}

/// A worker's right to attempt one event, with the data to send. The sender takes a lease, so no event is sent without
/// one.
#[derive(Clone, PartialEq, Eq)]
pub struct Lease {
    pub token: LeaseToken,
    pub key: EventKey,
    pub event_id: EventId,
    /// The id that the receiver sees as `webhook-id`, and that is signed: that of the message, which all endpoints of a
    /// fan-out share. For an event that was enqueued to a URL it is the event's id.
    pub wire_id: EventId,
    pub message_id: MessageId,
    pub destination_id: DestinationId,
    pub destination_url: DestinationUrl,
    /// The version of the destination's keys and headers. Zero: it has none, and the instance's keys sign.
    pub profile_version: i64,
    pub event_type: String,
    pub content_type: String,
    pub payload: LeasePayload,
    pub traceparent: Option<String>,
    /// Attempts recorded since the event was enqueued or last requeued.
    pub attempts: u32,
    pub max_attempts: u32,
    pub trigger: Trigger,
    /// How long the event had been due when the claim returned this lease.
    pub overdue: Duration,
}

/// The ids that a store gives to a new event.
#[derive(Debug, Clone)]
pub struct NewEventIds {
    pub key: EventKey,
    pub event_id: EventId,
    pub message_id: MessageId,
    pub destination_id: DestinationId,
}

impl Lease {
    /// Returns the lease on an event that is stored and leased in the same commit. Its destination has no keys and headers of
    /// its own.
    pub fn on_new_event(event: &NewEvent, ids: NewEventIds, token: LeaseToken) -> Self {
        let NewEventIds { key, event_id, message_id, destination_id } = ids;
        Self {
            token,
            key,
            wire_id: event_id.clone(),
            event_id,
            message_id,
            destination_id,
            destination_url: event.destination_url().clone(),
            profile_version: 0,
            event_type: event.event_type().to_owned(),
            content_type: event.content_type().to_owned(),
            payload: LeasePayload::Loaded(event.payload().clone()),
            traceparent: event.traceparent().map(str::to_owned),
            attempts: 0,
            max_attempts: event.max_attempts(),
            trigger: Trigger::Scheduled,
            overdue: Duration::ZERO,
        }
    }

    /// Returns true if an earlier attempt is recorded. Retries count against `retries_max` of a claim.
    pub fn is_retry(&self) -> bool {
        self.attempts > 0
    }

    /// The number of this attempt, counting from one.
    pub fn attempt(&self) -> u32 {
        self.attempts.saturating_add(1)
    }
}

/// Omits the payload, so that it never reaches a log.
impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease")
            .field("token", &self.token)
            .field("event_id", &self.event_id)
            .field("destination_id", &self.destination_id)
            .field("attempt", &self.attempt())
            .field("payload_bytes", &self.payload.len())
            .finish_non_exhaustive()
    }
}

/// How long a lease lasts and how often the worker renews it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    duration: Duration,
    heartbeat: Duration,
}

/// Why a lease duration was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLease {
    #[error(
        "a lease of {0:?} is too short: its heartbeat, a third of it but at least {HEARTBEAT_MIN:?}, must come before it \
         expires; make the lease longer than {HEARTBEAT_MIN:?}"
    )]
    TooShort(Duration),
    #[error(
        "a lease of {0:?} is too long: the events of a dead worker wait until it expires; use at most {LEASE_MAX:?}"
    )]
    TooLong(Duration),
}

/// Shortest interval between two heartbeats.
const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
/// Longest lease: the events of a dead worker wait this long for a takeover.
const LEASE_MAX: Duration = Duration::from_secs(24 * 3_600);

impl LeaseTerms {
    /// Validates the duration and derives the heartbeat interval: a third of it, at least 100 ms.
    pub fn new(duration: Duration) -> Result<Self, InvalidLease> {
        let heartbeat = (duration / 3).max(HEARTBEAT_MIN);
        if heartbeat >= duration {
            return Err(InvalidLease::TooShort(duration));
        }
        if duration > LEASE_MAX {
            return Err(InvalidLease::TooLong(duration));
        }
        Ok(Self { duration, heartbeat })
    }

    /// How long a lease lasts without renewal.
    pub const fn duration(self) -> Duration {
        self.duration
    }

    /// The interval between two renewals.
    pub const fn heartbeat(self) -> Duration {
        self.heartbeat
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn s3_heartbeat_is_a_third_of_the_lease() {
        assert_eq!(LeaseTerms::new(ms(30_000)).unwrap().heartbeat(), ms(10_000));
        assert_eq!(LeaseTerms::new(ms(600)).unwrap().heartbeat(), ms(200));
    }

    #[test]
    fn s3_heartbeat_is_at_least_100_ms() {
        assert_eq!(LeaseTerms::new(ms(299)).unwrap().heartbeat(), ms(100));
        assert_eq!(LeaseTerms::new(ms(101)).unwrap().heartbeat(), ms(100));
    }

    #[test]
    fn s3_short_lease_below_its_heartbeat_is_refused() {
        for short in [Duration::ZERO, ms(1), ms(99), ms(100)] {
            let error = LeaseTerms::new(short).unwrap_err();
            assert_eq!(error, InvalidLease::TooShort(short));
            assert!(error.to_string().contains("100ms"), "{error}");
        }
    }

    #[test]
    fn payload_keeps_its_size_without_its_bytes_and_shows_no_byte() {
        let loaded = LeasePayload::from(Bytes::from_static(b"secret"));
        assert_eq!((loaded.len(), loaded.expect_loaded().len(), loaded.is_stored()), (6, 6, false));
        assert_eq!(format!("{loaded:?}"), "Loaded(6 bytes)");
        let stored = loaded.unload();
        assert_eq!((stored.clone(), stored.len()), (LeasePayload::Stored { bytes: 6 }, 6));
        assert_eq!(format!("{stored:?}"), "Stored(6 bytes)");
    }

    #[test]
    fn lease_longer_than_a_day_is_refused() {
        assert_eq!(LeaseTerms::new(Duration::MAX), Err(InvalidLease::TooLong(Duration::MAX)));
        assert!(LeaseTerms::new(LEASE_MAX).is_ok());
    }

    proptest! {
        #[test]
        fn s3_heartbeat_always_comes_before_the_lease_ends(millis in 0_u64..10_000_000) {
            if let Ok(terms) = LeaseTerms::new(ms(millis)) {
                prop_assert!(terms.heartbeat() < terms.duration());
                prop_assert!(terms.heartbeat() >= HEARTBEAT_MIN);
            }
        }
    }
}
