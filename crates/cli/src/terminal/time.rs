//! Times for people: the moment in UTC, the same wherever it is read, and how long ago it was.

use std::time::Duration;

use posthaste_domain::Timestamp;
use posthaste_sender::{SystemClock, WallClock as _};

pub(crate) fn now() -> Timestamp {
    SystemClock.now()
}

/// Reads a time as the API writes it.
pub(crate) fn parse(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|at| Timestamp::from_micros(at.as_microsecond()))
}

/// `2026-01-31 16:31:02Z`.
pub(crate) fn utc(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.as_micros()) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%SZ").to_string(),
        Err(_) => format!("{at:?}"),
    }
}

/// `2026-01-31T16:31:02.5Z`, for programs.
pub(crate) fn rfc3339(at: Timestamp) -> String {
    jiff::Timestamp::from_microsecond(at.as_micros()).map_or_else(|_| format!("{at:?}"), |at| at.to_string())
}

/// `3 min ago`, `in 42 s`, `now`.
pub(crate) fn relative(at: Timestamp, now: Timestamp) -> String {
    let (ago, ahead) = (now.since(at), at.since(now));
    if ago >= Duration::from_secs(1) {
        format!("{} ago", in_words(ago))
    } else if ahead >= Duration::from_secs(1) {
        format!("in {}", in_words(ahead))
    } else {
        "now".to_owned()
    }
}

/// The largest unit that leaves two of it, rounded down: `119 s`, `2 min`, `47 h`, `2 d`.
pub(crate) fn in_words(duration: Duration) -> String {
    match duration.as_secs() {
        0 => format!("{} ms", duration.as_millis()),
        secs @ 1..120 => format!("{secs} s"),
        secs @ 120..7_200 => format!("{} min", secs / 60),
        secs @ 7_200..172_800 => format!("{} h", secs / 3_600),
        secs => format!("{} d", secs / 86_400),
    }
}

/// A time of the API as lists show it: how long ago, and as it came where it cannot be read.
pub(crate) fn age(text: Option<&str>, now: Timestamp) -> String {
    text.map_or_else(String::new, |text| {
        parse(text).map_or_else(|| super::harmless_line(text), |at| relative(at, now))
    })
}

/// A time of the API in full: `2026-01-31 16:31:02Z (3 min ago)`.
pub(crate) fn in_full(text: &str, now: Timestamp) -> String {
    parse(text)
        .map_or_else(|| super::harmless_line(text), |at| format!("{} ({})", utc(at), relative(at, now)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_utc_whatever_its_offset() {
        let at = parse("2026-01-31T18:31:02.5+02:00").unwrap();
        assert_eq!(utc(at), "2026-01-31 16:31:02Z");
    }

    #[test]
    fn ages_use_the_largest_unit_that_leaves_two_of_it() {
        let words = |secs| in_words(Duration::from_secs(secs));
        assert_eq!([words(1), words(119), words(120)], ["1 s", "119 s", "2 min"]);
        assert_eq!([words(7_199), words(7_200), words(172_799)], ["119 min", "2 h", "47 h"]);
        assert_eq!(words(172_800), "2 d");
        assert_eq!(in_words(Duration::from_micros(250_900)), "250 ms");
    }

    #[test]
    fn past_present_and_future_are_told_apart() {
        let now = Timestamp::from_secs(1_000);
        assert_eq!(relative(Timestamp::from_secs(940), now), "60 s ago");
        assert_eq!(relative(Timestamp::from_micros(1_000_400_000), now), "now");
        assert_eq!(relative(Timestamp::from_secs(1_042), now), "in 42 s");
    }

    #[test]
    fn what_is_no_time_is_shown_as_it_came() {
        assert_eq!(in_full("soon\u{1b}", Timestamp::default()), "soon\\u{1b}");
        assert_eq!(age(None, Timestamp::default()), "");
    }
}
