//! The instance's signing secrets and their rotation.

use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_domain::signature::Secret;

/// Most signing secrets that are valid at the same time. Every request carries a signature for each of them.
pub const VALID_SECRETS_MAX: usize = 5;

/// A valid signing secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredSecret {
    pub secret: Secret,
    pub created_at: Timestamp,
    /// The operator who rotated to this secret. `None` for the first secret, which the first start generates.
    pub created_by: Option<String>,
    /// When this secret becomes invalid. `None` for the newest secret.
    pub retires_at: Option<Timestamp>,
}

/// A rotation: the new secret is valid at once, and the secret before it for the grace period.
#[derive(Debug, Clone, Copy)]
pub struct RotateRequest<'a> {
    pub secret: &'a Secret,
    pub grace: GracePeriod,
    /// Who rotates, for the log and for operators.
    pub actor: &'a str,
}

/// How long a replaced secret stays valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GracePeriod(Duration);

/// A grace period is too short or too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the grace period must be {} s to {} s, this one is {} s",
    GracePeriod::MIN.as_secs(), GracePeriod::MAX.as_secs(), .0.as_secs()
)]
pub struct InvalidGracePeriod(Duration);

impl GracePeriod {
    /// Longer than any running worker needs to learn of the new secret.
    pub const MIN: Duration = Duration::from_secs(60);
    pub const MAX: Duration = Duration::from_secs(365 * 86_400);
    /// A day, in which receivers can be given the new secret.
    pub const DEFAULT: Self = Self(Duration::from_secs(86_400));

    pub fn new(duration: Duration) -> Result<Self, InvalidGracePeriod> {
        if (Self::MIN..=Self::MAX).contains(&duration) {
            Ok(Self(duration))
        } else {
            Err(InvalidGracePeriod(duration))
        }
    }

    pub const fn duration(self) -> Duration {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_period_is_a_minute_to_a_year() {
        let accepts = |seconds| GracePeriod::new(Duration::from_secs(seconds)).is_ok();
        assert!(accepts(60) && accepts(86_400) && accepts(365 * 86_400));
        assert!(!accepts(0) && !accepts(59) && !accepts(365 * 86_400 + 1));
        let message = GracePeriod::new(Duration::from_secs(5)).unwrap_err().to_string();
        assert_eq!(message, "the grace period must be 60 s to 31536000 s, this one is 5 s");
    }
}
