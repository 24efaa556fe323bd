//! Times for people: in UTC, so that they are the same for every reader, and relative to now.

use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_engine::host_time;

pub(crate) fn now() -> Timestamp {
    host_time()
}

/// Parses a time in the API's format, RFC 3339. None if the text is not such a time.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|at| Timestamp::from_micros(at.as_microsecond()))
}

/// Returns `2026-01-31 16:31:02Z`.
pub(crate) fn format_utc(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.as_micros()) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        Err(_) => format!("{at:?}"),
    }
}

/// Returns `2026-01-31T16:31:02.5Z`, for programs.
pub(crate) fn format_rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros()).map_or_else(|_| format!("{at:?}"), |at| at.to_string())
}

/// Returns `3 min ago`, `in 42 s` or `now`.
pub(crate) fn format_relative(at: Timestamp, now: Timestamp) -> String {
    let (ago, ahead) = (now.since(at), at.since(now));
    if ago >= Duration::from_secs(1) {
        format!("{} ago", format_duration(ago))
    } else if ahead >= Duration::from_secs(1) {
        format!("in {}", format_duration(ahead))
    } else {
        "now".to_owned()
    }
}

/// Returns a duration in the largest unit of which it has at least two, rounded down: `119 s`, `2 min`, `47 h`, `2 d`.
pub(crate) fn format_duration(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        secs @ 1..120 => format!("{secs} s"),
        secs @ 120..7_200 => format!("{} min", secs / 60),
        secs @ 7_200..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} d", secs / 86_400),
    }
}

/// Formats a time of the API relative to now, for tables. Returns text that is not a time escaped, and no text as an
/// empty string.
pub(crate) fn format_age(text: Option<&str>, now: Timestamp) -> String {
    text.map_or_else(String::new, |text| {
        parse(text).map_or_else(|| super::escape_line(text), |at| format_relative(at, now))
    })
}

/// Formats a time of the API in full: `2026-01-31 16:31:02Z (3 min ago)`. Text that is not a time is returned escaped.
pub(crate) fn format_full(text: &str, now: Timestamp) -> String {
    parse(text).map_or_else(
        || super::escape_line(text),
        |at| format!("{} ({})", format_utc(at), format_relative(at, now)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_with_any_offset_is_shown_in_utc() {
        let at = parse("2026-01-31T18:31:02.5+02:00").unwrap();
        assert_eq!(format_utc(at), "2026-01-31 16:31:02Z");
    }

    #[test]
    fn durations_use_the_largest_unit_of_which_they_have_two() {
        let format = |secs| format_duration(Duration::from_secs(secs));
        assert_eq!([format(1), format(119), format(120)], ["1 s", "119 s", "2 min"]);
        assert_eq!([format(7_199), format(7_200), format(172_799)], ["119 min", "2 h", "47 h"]);
        assert_eq!(format(172_800), "2 d");
        assert_eq!(format_duration(Duration::from_micros(250_900)), "250 ms");
    }

    #[test]
    fn past_present_and_future_times_are_distinguished() {
        let now = Timestamp::from_secs(1_000);
        assert_eq!(format_relative(Timestamp::from_secs(940), now), "60 s ago");
        assert_eq!(format_relative(Timestamp::from_micros(1_000_400_000), now), "now");
        assert_eq!(format_relative(Timestamp::from_secs(1_042), now), "in 42 s");
    }

    #[test]
    fn text_that_is_not_a_time_is_shown_escaped() {
        assert_eq!(format_full("soon\u{1b}", Timestamp::default()), "soon\\u{1b}");
        assert_eq!(format_age(None, Timestamp::default()), "");
    }
}
