//! The text of an event's last error: its fixed words, and the removal of everything that a receiver wrote.
//!
//! An error of an attempt is `HTTP 503: excerpt` or `timeout: detail`. An expired event has `expired after 24 h: ` before the
//! error of its last attempt. The other texts contain nothing of a receiver.

use crate::ErrorClass;

/// The first word of the error of an attempt with a response. The status follows.
pub(crate) const HTTP: &str = "HTTP ";
/// The first words of the error of an event that an operator cancelled.
pub(crate) const CANCELLED: &str = "manual_cancelled";
/// The first word of the error of an event that lost too many leases.
pub(crate) const ABANDONED: &str = "abandoned";
/// The first words of the error of an event that expired.
pub(crate) const EXPIRED: &str = "expired after ";
/// Separates what happened from its details.
const SEPARATOR: &str = ": ";
/// Replaces a text that this version does not know, because it may quote a receiver.
const UNKNOWN: &str = "unknown error";

/// Returns a last error with the status or class of its attempt, but without the excerpt of the response and without the
/// details of a network error, which may show addresses and certificates of a private network.
pub fn last_error_without_excerpt(last_error: &str) -> String {
    let (head, details) = match last_error.split_once(SEPARATOR) {
        Some((head, details)) => (head, Some(details)),
        None => (last_error, None),
    };
    match (head, details) {
        (CANCELLED | ABANDONED, _) => last_error.to_owned(),
        (expired, Some(error)) if expired.starts_with(EXPIRED) => {
            format!(
                "{expired}{SEPARATOR}{}",
                attempt_error(error.split(SEPARATOR).next().unwrap_or_default())
            )
        }
        (expired, None) if expired.starts_with(EXPIRED) => expired.to_owned(),
        (head, _) => attempt_error(head).to_owned(),
    }
}

/// Returns the error of an attempt if it is a status or a class.
fn attempt_error(head: &str) -> &str {
    let is_status = |text: &str| text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_known = head.strip_prefix(HTTP).is_some_and(is_status) || ErrorClass::from_name(head).is_some();
    if is_known { head } else { UNKNOWN }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;
    use crate::{Hold, Outcome, TerminalState};

    const DAY: Duration = Duration::from_secs(86_400);

    #[test]
    fn texts_without_a_receivers_words_are_kept() {
        for state in [
            TerminalState::cancelled(None),
            TerminalState::cancelled(Some("wrong customer: HTTP 503: x")),
            TerminalState::after_lost_leases(5, 5).unwrap(),
            TerminalState::expired(DAY, None, Hold::of_destination(false, true, false)),
            TerminalState::expired(DAY, Some("HTTP 503"), Hold::of_destination(false, false, true)),
        ] {
            assert_eq!(last_error_without_excerpt(state.last_error()), state.last_error());
        }
    }

    #[test]
    fn an_unknown_text_is_hidden() {
        for text in
            ["", "the receiver said: secret", "HTTP 50", "HTTP 5033: x", "HTTP 503 secret", "Timeout: x"]
        {
            assert_eq!(last_error_without_excerpt(text), "unknown error", "{text}");
        }
        let expired = "expired after 24 h: secret: HTTP 503";
        assert_eq!(last_error_without_excerpt(expired), "expired after 24 h: unknown error");
    }

    proptest! {
        #[test]
        fn nothing_of_a_response_remains(status in 300_u16..600, body in ".{0,40}") {
            let error = Outcome::response(status, None, body.as_bytes()).last_error().unwrap();
            prop_assert_eq!(last_error_without_excerpt(&error), format!("HTTP {status}"));
            let expired = TerminalState::expired(DAY, Some(&error), None);
            let expected = format!("expired after 24 h: HTTP {status}");
            prop_assert_eq!(last_error_without_excerpt(expired.last_error()), expected);
        }

        #[test]
        fn nothing_but_the_class_of_a_network_error_remains(detail in ".{0,40}") {
            for class in ErrorClass::ALL {
                let error = Outcome::no_response(*class, &detail).last_error().unwrap();
                prop_assert_eq!(last_error_without_excerpt(&error), class.as_str());
            }
        }
    }
}
