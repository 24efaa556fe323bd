//! The difference between the host's clock and the store's.

use std::fmt;
use std::time::Duration;

use posthaste_domain::Timestamp;

/// How far the host's clock is from the store's, and on which side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockSkew {
    pub difference: Duration,
    pub host_is_ahead: bool,
}

impl ClockSkew {
    /// Largest difference that is not reported. A greater one misleads an operator who compares log lines of this host
    /// with times in the store.
    pub const TOLERATED: Duration = Duration::from_secs(30);

    /// Compares two readings that were taken at the same time.
    pub fn between(host: Timestamp, store: Timestamp) -> Self {
        let host_is_ahead = host > store;
        let difference = if host_is_ahead { host.since(store) } else { store.since(host) };
        Self { difference, host_is_ahead }
    }

    /// Returns whether the clocks agree well enough.
    pub fn is_tolerable(self) -> bool {
        self.difference <= Self::TOLERATED
    }

    /// Returns the difference in seconds, negative if the host's clock is behind.
    pub fn as_secs_f64(self) -> f64 {
        let seconds = self.difference.as_secs_f64();
        if self.host_is_ahead { seconds } else { -seconds }
    }
}

impl fmt::Display for ClockSkew {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = if self.host_is_ahead { "ahead of" } else { "behind" };
        write!(f, "this host's clock is {:.1} s {side} the store's", self.difference.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skew_has_a_sign_and_a_sentence() {
        let store = Timestamp::from_secs(10_000);
        let behind = ClockSkew::between(Timestamp::from_secs(6_400), store);
        assert_eq!(behind.as_secs_f64(), -3_600.0);
        assert_eq!(behind.to_string(), "this host's clock is 3600.0 s behind the store's");
        let ahead = ClockSkew::between(store.after(Duration::from_secs(30)), store);
        assert!(ahead.is_tolerable() && !behind.is_tolerable());
        assert_eq!(ahead.to_string(), "this host's clock is 30.0 s ahead of the store's");
    }
}
