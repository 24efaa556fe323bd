//! The `Retry-After` header of a response.

use std::time::{Duration, SystemTime};

use crate::Timestamp;
use crate::retry::MAX_BACKOFF_MAX;

/// Upper bound of the wait that a receiver can request: a year, the largest `max_backoff`. The retry policy cuts the wait
/// to its own `max_backoff`.
pub const RETRY_AFTER_MAX: Duration = MAX_BACKOFF_MAX;

/// Parses a `Retry-After` header, which holds seconds or an HTTP-date, into the wait from `now`.
///
/// A wait beyond [`RETRY_AFTER_MAX`] is cut to it, a date in the past is zero, and a malformed value is `None`.
pub fn parse_retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    let value = value.trim_matches([' ', '\t']);
    let wait = if !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit()) {
        // The value has only digits, so parsing fails only on overflow.
        Duration::from_secs(value.parse().unwrap_or(u64::MAX))
    } else {
        let date = httpdate::parse_http_date(value).ok()?;
        let since_epoch = date.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        Timestamp::default().after(since_epoch).since(now)
    };
    Some(wait.min(RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT, the date in the HTTP specification.
    const NOW: Timestamp = Timestamp::from_secs(784_111_777);

    fn secs(value: &str) -> Option<u64> {
        parse_retry_after(value, NOW).map(|wait| wait.as_secs())
    }

    #[test]
    fn seconds_are_parsed_and_capped_at_a_year() {
        assert_eq!(secs("0"), Some(0));
        assert_eq!(secs(" 120\t"), Some(120));
        assert_eq!(secs("86400"), Some(86_400));
        assert_eq!(secs("31536000"), Some(31_536_000));
        assert_eq!(secs("31536001"), Some(31_536_000));
        assert_eq!(secs("99999999999999999999999999"), Some(31_536_000));
    }

    #[test]
    fn http_dates_in_all_three_forms_are_parsed() {
        assert_eq!(secs("Sun, 06 Nov 1994 08:50:37 GMT"), Some(60));
        assert_eq!(secs("Sunday, 06-Nov-94 08:50:37 GMT"), Some(60));
        assert_eq!(secs("Sun Nov  6 08:50:37 1994"), Some(60));
        assert_eq!(secs("Mon, 07 Nov 1994 08:49:37 GMT"), Some(86_400));
        assert_eq!(secs("Fri, 15 Jan 2027 08:00:00 GMT"), Some(31_536_000));
        assert_eq!(secs("Sun, 06 Nov 1994 08:00:00 GMT"), Some(0));
    }

    #[test]
    fn malformed_value_is_none() {
        for value in ["", "-1", "1.5", "+5", "soon", "0x10", "1e3", "\u{0661}"] {
            assert_eq!(secs(value), None, "{value:?}");
        }
    }

    proptest! {
        #[test]
        fn no_value_panics_or_exceeds_the_cap(value in ".{0,64}", now in any::<i64>()) {
            if let Some(wait) = parse_retry_after(&value, Timestamp::from_micros(now)) {
                prop_assert!(wait <= RETRY_AFTER_MAX);
            }
        }
    }
}
