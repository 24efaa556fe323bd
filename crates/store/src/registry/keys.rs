//! The keys and custom headers of destinations, sealed.

use std::time::Duration;

use posthaste_domain::seal::SealedValue;
use posthaste_domain::signature::KeyKind;
use posthaste_domain::{ApplicationId, DestinationId, Timestamp};

/// A key to be stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewKey {
    pub kind: KeyKind,
    /// The sealed text form of the key. Its id is new.
    pub sealed: SealedValue,
}

/// The secrets of a new endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewSecrets {
    pub key: NewKey,
    pub headers: Option<SealedValue>,
}

/// A stored key of a destination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationKey {
    pub kind: KeyKind,
    pub sealed: SealedValue,
    pub created_at: Timestamp,
    /// Who rotated to this key. `None` for the first key of an endpoint.
    pub created_by: Option<String>,
    /// When this key becomes invalid. `None` for the newest key.
    pub retires_at: Option<Timestamp>,
}

/// A rotation: the new key is valid at once, and the key before it for the grace period.
#[derive(Debug, Clone)]
pub struct RotateKey<'a> {
    pub key: NewKey,
    pub grace: KeyGrace,
    /// Who rotates, for the audit log.
    pub actor: &'a str,
}

/// How long a replaced key of a destination stays valid: up to seven days. Without a grace period, requests that workers have
/// claimed already may still be signed with the old key only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KeyGrace(Duration);

/// A grace period longer than seven days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the grace period must be at most {} s, this one is {} s", KeyGrace::MAX.as_secs(), .0.as_secs())]
pub struct InvalidKeyGrace(Duration);

impl KeyGrace {
    pub const MAX: Duration = Duration::from_secs(7 * 86_400);
    /// A day, in which the receiver can be given the new key.
    pub const DEFAULT: Self = Self(Duration::from_secs(86_400));

    pub fn new(duration: Duration) -> Result<Self, InvalidKeyGrace> {
        if duration <= Self::MAX { Ok(Self(duration)) } else { Err(InvalidKeyGrace(duration)) }
    }

    pub const fn duration(self) -> Duration {
        self.0
    }
}

/// What a destination adds to a request: its keys and its custom headers. Also names the application of an endpoint, by which
/// a worker counts attempts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DestinationProfile {
    pub destination: DestinationId,
    /// The application of an endpoint. `None` if the destination is a URL.
    pub app: Option<ApplicationId>,
    /// Grows with every change of URL, keys or headers.
    pub version: i64,
    /// The valid keys, newest first. Empty if the instance's keys sign.
    pub keys: Vec<DestinationKey>,
    pub headers: Option<SealedValue>,
}

/// A sealed value and the bytes that replace it. The id stays.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reseal {
    pub old: SealedValue,
    pub new: SealedValue,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_is_a_week_at_most() {
        let accepts = |seconds| KeyGrace::new(Duration::from_secs(seconds)).is_ok();
        assert!(accepts(0) && accepts(604_800) && !accepts(604_801));
        assert_eq!(KeyGrace::DEFAULT.duration(), Duration::from_secs(86_400));
    }
}
