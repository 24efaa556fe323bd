//! A delivery as people read it, and as programs do.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::delivery::{Check, Delivery};
use crate::terminal::{Look, Paint, harmless, harmless_line, indented, time};

/// A line about the delivery, then its payload.
pub(super) fn card(delivery: &Delivery, since_last: Option<Duration>, look: Look) -> String {
    let (verdict, paint) = match &delivery.check {
        Check::Verified => ("verified".to_owned(), Paint::Good),
        Check::NotVerified(why) => (format!("NOT verified: {why}"), Paint::Bad),
        Check::Unchecked => ("unchecked".to_owned(), Paint::Waiting),
    };
    let named = |name: &Option<String>, missing: &str| harmless_line(name.as_deref().unwrap_or(missing));
    let mut facts = vec![
        Paint::Dim.on(&time::utc(delivery.at), look),
        paint.on(&verdict, look),
        Paint::Bold.on(&named(&delivery.event_type, "no event type"), look),
        named(&delivery.event_id, "no webhook-id"),
    ];
    facts.extend(delivery.attempt.map(|number| format!("attempt {number}")));
    let answered = if delivery.status.is_success() { Paint::Good } else { Paint::Bad };
    facts.push(answered.on(&format!("answered {}", delivery.status.as_u16()), look));
    facts.push(format!("{} bytes", delivery.body.len()));
    facts.extend(
        since_last.map(|since| Paint::Dim.on(&format!("{} after the last", time::in_words(since)), look)),
    );
    format!("{}\n{}\n", facts.join(" · "), payload(&delivery.body))
}

/// Laid out if it is JSON, otherwise as it came.
fn payload(body: &[u8]) -> String {
    indented(body).unwrap_or_else(|| harmless(&String::from_utf8_lossy(body)))
}

#[derive(Serialize)]
struct Line<'a> {
    at: String,
    path: &'a str,
    event_id: Option<&'a str>,
    event_type: Option<&'a str>,
    attempt: Option<u32>,
    /// Null where there was no secret to check it with.
    verified: Option<bool>,
    reason: Option<&'a str>,
    status: u16,
    bytes: usize,
    since_last_ms: Option<u128>,
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// What arrived, where it was not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
}

/// One JSON object on one line.
pub(super) fn line(delivery: &Delivery, since_last: Option<Duration>) -> String {
    let (verified, reason) = match &delivery.check {
        Check::Verified => (Some(true), None),
        Check::NotVerified(why) => (Some(false), Some(why.as_str())),
        Check::Unchecked => (None, None),
    };
    let payload = one_line(&delivery.body);
    let payload_text = match payload {
        Some(_) => None,
        None => Some(String::from_utf8_lossy(&delivery.body).into_owned()),
    };
    let line = Line {
        at: time::rfc3339(delivery.at),
        path: &delivery.path,
        event_id: delivery.event_id.as_deref(),
        event_type: delivery.event_type.as_deref(),
        attempt: delivery.attempt,
        verified,
        reason,
        status: delivery.status.as_u16(),
        bytes: delivery.body.len(),
        since_last_ms: since_last.map(|since| since.as_millis()),
        content_type: delivery.content_type.as_deref(),
        payload,
        payload_text,
    };
    serde_json::to_string(&line).expect("text, numbers and valid JSON can be written")
}

/// The same JSON without line breaks. There are none inside its strings: JSON must escape them there.
fn one_line(body: &[u8]) -> Option<Box<RawValue>> {
    let text = std::str::from_utf8(body).ok()?;
    serde_json::from_str(&text.replace(['\n', '\r'], " ")).ok()
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::StatusCode;
    use posthaste_domain::Timestamp;

    use super::*;

    fn delivery(body: &'static str) -> Delivery {
        Delivery {
            at: Timestamp::from_secs(1_769_877_062),
            path: "/".into(),
            event_id: Some("msg_1".into()),
            event_type: Some("invoice.paid".into()),
            attempt: Some(2),
            content_type: Some("application/json".into()),
            check: Check::Verified,
            status: StatusCode::OK,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    #[test]
    fn people_see_one_line_of_facts_and_the_payload_laid_out() {
        let shown = card(&delivery(r#"{"invoice":17}"#), Some(Duration::from_millis(3_200)), Look::PLAIN);
        let expected = "2026-01-31 16:31:02Z · verified · invoice.paid · msg_1 · attempt 2 · answered 200 · \
                        14 bytes · 3 s after the last\n{\n  \"invoice\": 17\n}\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn a_stranger_is_told_as_such_and_cannot_act_on_the_terminal() {
        let stranger = Delivery {
            event_id: None,
            event_type: Some("\u{1b}[2J".into()),
            attempt: None,
            check: Check::NotVerified("the header webhook-id is missing".into()),
            status: StatusCode::UNAUTHORIZED,
            ..delivery("a=1\u{7}")
        };
        let shown = card(&stranger, None, Look::PLAIN);
        let expected = "2026-01-31 16:31:02Z · NOT verified: the header webhook-id is missing · \\u{1b}[2J · \
                        no webhook-id · answered 401 · 4 bytes\na=1\\u{7}\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn programs_get_one_line_with_the_payload_as_it_was_spelled() {
        let shown = line(&delivery("{\n  \"amount\": 1.50\r\n}"), None);
        assert_eq!(shown.lines().count(), 1);
        assert!(shown.contains(r#""payload":{   "amount": 1.50  }"#), "{shown}");
        assert!(
            shown.contains(r#""verified":true"#) && shown.contains(r#""at":"2026-01-31T16:31:02Z""#),
            "{shown}"
        );
        assert!(line(&delivery("a=1"), None).contains(r#""payload_text":"a=1""#));
    }
}
