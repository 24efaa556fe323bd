//! Renders a delivery as text for people or as JSON for programs.

use std::time::Duration;

use serde::Serialize;
use serde_json::value::RawValue;

use super::delivery::{Delivery, SignatureCheck};
use crate::terminal::{Color, OutputStyle, escape_line, escape_text, indent_json, time};

/// Renders a line about the delivery, then its payload. `since_last` is the time since the previous delivery, None for
/// the first.
pub(super) fn card(delivery: &Delivery, since_last: Option<Duration>, style: OutputStyle) -> String {
    let (check, check_color) = match &delivery.check {
        SignatureCheck::Verified => ("verified".to_owned(), Color::Good),
        SignatureCheck::NotVerified(reason) => (format!("NOT verified: {reason}"), Color::Bad),
        SignatureCheck::Unchecked => ("unchecked".to_owned(), Color::Waiting),
    };
    let text_or = |text: &Option<String>, missing: &str| escape_line(text.as_deref().unwrap_or(missing));
    let mut facts = vec![
        Color::Dim.paint(&time::format_utc(delivery.at), style),
        check_color.paint(&check, style),
        Color::Bold.paint(&text_or(&delivery.event_type, "no event type"), style),
        text_or(&delivery.event_id, "no webhook-id"),
    ];
    facts.extend(delivery.attempt.map(|number| format!("attempt {number}")));
    let status_color = if delivery.status.is_success() { Color::Good } else { Color::Bad };
    facts.push(status_color.paint(&format!("responded {}", delivery.status.as_u16()), style));
    facts.push(format!("{} bytes", delivery.body.len()));
    facts.extend(
        since_last.map(|since| {
            Color::Dim.paint(&format!("{} after the last", time::format_duration(since)), style)
        }),
    );
    format!("{}\n{}\n", facts.join(" · "), payload(&delivery.body))
}

/// Returns a JSON payload indented, any other payload escaped.
fn payload(body: &[u8]) -> String {
    indent_json(body).unwrap_or_else(|| escape_text(&String::from_utf8_lossy(body)))
}

/// The JSON object of a delivery, as `--json` prints it.
#[derive(Serialize)]
struct DeliveryJson<'a> {
    at: String,
    path: &'a str,
    event_id: Option<&'a str>,
    event_type: Option<&'a str>,
    attempt: Option<u32>,
    /// Null if the command has no secret.
    verified: Option<bool>,
    reason: Option<&'a str>,
    status: u16,
    bytes: usize,
    since_last_ms: Option<u128>,
    content_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    /// The payload, if it is not JSON.
    #[serde(skip_serializing_if = "Option::is_none")]
    payload_text: Option<String>,
}

/// Renders a delivery as one JSON object on one line.
pub(super) fn json_line(delivery: &Delivery, since_last: Option<Duration>) -> String {
    let (verified, reason) = match &delivery.check {
        SignatureCheck::Verified => (Some(true), None),
        SignatureCheck::NotVerified(reason) => (Some(false), Some(reason.as_str())),
        SignatureCheck::Unchecked => (None, None),
    };
    let payload = one_line(&delivery.body);
    let payload_text = match payload {
        Some(_) => None,
        None => Some(String::from_utf8_lossy(&delivery.body).into_owned()),
    };
    let object = DeliveryJson {
        at: time::format_rfc3339(delivery.at),
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
    serde_json::to_string(&object).expect("strings, numbers and valid JSON serialize")
}

/// Returns JSON without its line breaks. Strings are unchanged: JSON escapes line breaks inside them.
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
            check: SignatureCheck::Verified,
            status: StatusCode::OK,
            body: Bytes::from_static(body.as_bytes()),
        }
    }

    #[test]
    fn a_card_is_one_line_of_facts_and_the_indented_payload() {
        let shown =
            card(&delivery(r#"{"invoice":17}"#), Some(Duration::from_millis(3_200)), OutputStyle::PLAIN);
        let expected = "2026-01-31 16:31:02Z · verified · invoice.paid · msg_1 · attempt 2 · responded 200 · \
                        14 bytes · 3 s after the last\n{\n  \"invoice\": 17\n}\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn an_unverified_delivery_is_marked_and_its_control_characters_are_escaped() {
        let unverified = Delivery {
            event_id: None,
            event_type: Some("\u{1b}[2J".into()),
            attempt: None,
            check: SignatureCheck::NotVerified("the header webhook-id is missing".into()),
            status: StatusCode::UNAUTHORIZED,
            ..delivery("a=1\u{7}")
        };
        let shown = card(&unverified, None, OutputStyle::PLAIN);
        let expected = "2026-01-31 16:31:02Z · NOT verified: the header webhook-id is missing · \\u{1b}[2J · \
                        no webhook-id · responded 401 · 4 bytes\na=1\\u{7}\n";
        assert_eq!(shown, expected);
    }

    #[test]
    fn json_is_one_line_and_keeps_the_spelling_of_the_payload() {
        let shown = json_line(&delivery("{\n  \"amount\": 1.50\r\n}"), None);
        assert_eq!(shown.lines().count(), 1);
        assert!(shown.contains(r#""payload":{   "amount": 1.50  }"#), "{shown}");
        assert!(
            shown.contains(r#""verified":true"#) && shown.contains(r#""at":"2026-01-31T16:31:02Z""#),
            "{shown}"
        );
        assert!(json_line(&delivery("a=1"), None).contains(r#""payload_text":"a=1""#));
    }
}
