//! Moments as clients read them: RFC 3339, UTC, always with microseconds, so that they also sort as text.

use std::fmt;

use posthaste_domain::Timestamp;
use serde::{Serialize, Serializer};

/// A moment of the store's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(pub(crate) Timestamp);

impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        // What no calendar holds is shown as the end that it lies beyond.
        let beyond = if micros < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        write!(f, "{:.6}", jiff::Timestamp::from_microsecond(micros).unwrap_or(beyond))
    }
}

impl Serialize for Moment {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<Timestamp> for Moment {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_rfc_3339_in_utc_with_microseconds() {
        let shown = |micros| Moment(Timestamp::from_micros(micros)).to_string();
        assert_eq!(shown(1_700_000_000_000_000), "2023-11-14T22:13:20.000000Z");
        assert_eq!(shown(1_700_000_000_123_456), "2023-11-14T22:13:20.123456Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn the_end_of_time_is_still_a_moment() {
        assert!(Moment(Timestamp::from_micros(i64::MAX)).to_string().starts_with("9999-12-30T"));
        assert!(Moment(Timestamp::from_micros(i64::MIN)).to_string().starts_with("-009999-"));
    }
}
