//! Timestamps: in responses RFC 3339, UTC, always with microseconds, so that they also sort as text; in requests with any
//! offset.

use std::fmt;

use posthaste_domain::Timestamp;
use serde::{Deserialize, Serialize, Serializer};

/// A timestamp of the store's clock that is displayed and serialized as RFC 3339.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rfc3339(pub(crate) Timestamp);

impl fmt::Display for Rfc3339 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let micros = self.0.as_micros();
        // A timestamp outside of the calendar's range is shown as the nearest end of the range.
        let nearest = if micros < 0 { jiff::Timestamp::MIN } else { jiff::Timestamp::MAX };
        write!(f, "{:.6}", jiff::Timestamp::from_microsecond(micros).unwrap_or(nearest))
    }
}

impl Serialize for Rfc3339 {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl From<Timestamp> for Rfc3339 {
    fn from(at: Timestamp) -> Self {
        Self(at)
    }
}

/// A time in a request: RFC 3339, with an offset.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct GivenTime(pub(crate) Timestamp);

impl TryFrom<String> for GivenTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let time: Result<jiff::Timestamp, _> = text.parse();
        time.map(|time| Self(Timestamp::from_micros(time.as_microsecond()))).map_err(|_| {
            let shown: String = text.chars().take(64).collect();
            format!("must be an RFC 3339 time with an offset, such as 2026-01-31T11:29:00Z, got {shown:?}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339_in_utc_with_microseconds() {
        let shown = |micros| Rfc3339(Timestamp::from_micros(micros)).to_string();
        assert_eq!(shown(1_700_000_000_000_000), "2023-11-14T22:13:20.000000Z");
        assert_eq!(shown(1_700_000_000_123_456), "2023-11-14T22:13:20.123456Z");
        assert_eq!(shown(-1), "1969-12-31T23:59:59.999999Z");
    }

    #[test]
    fn timestamps_outside_of_the_calendar_are_clamped_to_its_range() {
        assert!(Rfc3339(Timestamp::from_micros(i64::MAX)).to_string().starts_with("9999-12-30T"));
        assert!(Rfc3339(Timestamp::from_micros(i64::MIN)).to_string().starts_with("-009999-"));
    }
}
