//! A worker's time-limited right to attempt an event.
//!
//! A lease is granted by a store under a fresh [`LeaseToken`], renewed by heartbeats while its attempt is in
//! flight, and ends by a settle, a release, a cancel, or by expiring. Whoever writes names the token: a write
//! under a token that is no longer the row's changes nothing.

use std::time::Duration;

use bytes::Bytes;

use crate::{DestinationId, DestinationUrl, EventId, EventKey, LeaseToken, MessageId};

/// Why an attempt is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Trigger {
    Scheduled,
    /// The first attempt after an operator's requeue.
    Manual,
}

impl Trigger {
    /// `requeued` says whether a requeue was the last thing that an operator did to the event.
    pub const fn of(requeued: bool, attempts: u32) -> Self {
        if requeued && attempts == 0 { Self::Manual } else { Self::Scheduled }
    }
}

words!(Trigger {
    Scheduled => "scheduled",
    Manual => "manual",
});

/// The only thing that can be sent: one event, with its payload, under one token.
#[derive(Clone)]
pub struct Lease {
    pub token: LeaseToken,
    pub key: EventKey,
    pub event_id: EventId,
    pub message_id: MessageId,
    pub destination_id: DestinationId,
    pub destination_url: DestinationUrl,
    pub event_type: String,
    pub content_type: String,
    pub payload: Bytes,
    pub traceparent: Option<String>,
    /// Outcomes recorded since the event was enqueued or last requeued.
    pub attempts: u32,
    pub max_attempts: u32,
    pub trigger: Trigger,
    /// How long the event had been due when the claim that brought this lease was answered.
    pub overdue: Duration,
}

impl Lease {
    /// A retry is an attempt after a recorded one; it counts against the retry batch.
    pub fn is_retry(&self) -> bool {
        self.attempts > 0
    }

    /// The number of the attempt that this lease allows, counting from one.
    pub fn attempt(&self) -> u32 {
        self.attempts.saturating_add(1)
    }
}

/// Shows everything but the payload, which never reaches a log.
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

/// How long leases last and how often they are renewed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LeaseTerms {
    duration: Duration,
    heartbeat: Duration,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLease {
    #[error(
        "a lease of {0:?} is too short: its heartbeat, a third of it but at least {HEARTBEAT_MIN:?}, must come before it \
         expires; make the lease longer than {HEARTBEAT_MIN:?}"
    )]
    TooShort(Duration),
    #[error(
        "a lease of {0:?} is too long: a dead worker's events would wait for it to expire; at most {LEASE_MAX:?}"
    )]
    TooLong(Duration),
}

const HEARTBEAT_MIN: Duration = Duration::from_millis(100);
const LEASE_MAX: Duration = Duration::from_secs(24 * 3_600);

impl LeaseTerms {
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

    pub const fn duration(self) -> Duration {
        self.duration
    }

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
    fn a_lease_that_would_keep_events_waiting_for_days_is_refused() {
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
