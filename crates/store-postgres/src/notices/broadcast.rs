//! The texts that the topic broadcasts: JSON arrays of notices, each short enough for one PostgreSQL notification.

use posthaste_domain::{FailureKind, NOTICE_TOPIC, NoticeEndpoint, NoticeKind};

/// Longest text of a notification: PostgreSQL rejects 8,000 bytes and more.
const NOTIFICATION_BYTES_MAX: usize = 7_900;

/// The fields of one notice on the topic.
#[derive(Debug)]
pub(super) struct NoticeFields<'a> {
    pub(super) kind: NoticeKind,
    /// RFC 3339 in UTC, with microseconds.
    pub(super) at: &'a str,
    pub(super) attempts: u32,
    pub(super) event_id: Option<&'a str>,
    pub(super) webhook_id: Option<&'a str>,
    pub(super) session_id: Option<&'a str>,
    pub(super) payment_request_id: Option<&'a str>,
    /// The endpoint of a notice about a disabled one. Notices of other kinds do not have it.
    pub(super) endpoint: Option<NoticeEndpoint>,
}

impl NoticeFields<'_> {
    /// Appends the notice as a JSON object. It is written by hand, because every delivery has a notice.
    fn write_json(&self, json: &mut String) {
        push_field(json, '{', "at", Some(self.at));
        json.push_str(",\"attempts\":");
        json.push_str(&self.attempts.to_string());
        if let (Some(reason), Some(endpoint)) = (self.kind.disable_reason(), &self.endpoint) {
            push_field(json, ',', "app_id", Some(&endpoint.app.to_string()));
            push_field(json, ',', "endpoint_id", Some(&endpoint.id.to_string()));
            push_field(json, ',', "reason", Some(reason.as_str()));
        }
        push_field(json, ',', "failure_kind", self.kind.failure_kind().map(FailureKind::as_str));
        push_field(json, ',', "payment_request_id", self.payment_request_id);
        push_field(json, ',', "session_id", self.session_id);
        push_field(json, ',', "topic", Some(NOTICE_TOPIC));
        push_field(json, ',', "type", Some(self.kind.as_str()));
        push_field(json, ',', "webhook_delivery_id", self.event_id);
        push_field(json, ',', "webhook_id", self.webhook_id);
        json.push('}');
    }
}

/// Appends a field of a JSON object after `separator`.
fn push_field(json: &mut String, separator: char, name: &str, value: Option<&str>) {
    json.push(separator);
    json.push('"');
    json.push_str(name);
    json.push_str("\":");
    match value {
        None => json.push_str("null"),
        Some(text)
            if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') =>
        {
            json.push('"');
            json.push_str(text);
            json.push('"');
        }
        Some(text) => json.push_str(&serde_json::Value::from(text).to_string()),
    }
}

/// Notices in order, as the contents of JSON arrays that fit into one notification each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Notifications(Vec<String>);

impl Notifications {
    pub(super) fn push(&mut self, notice: &NoticeFields<'_>) {
        // Written behind the last notices, and moved to a text of its own if it does not fit there.
        let mut last = self.0.pop().unwrap_or_default();
        let start = last.len();
        if start > 0 {
            last.push(',');
        }
        notice.write_json(&mut last);
        let moved = (start > 0 && last.len() + 2 > NOTIFICATION_BYTES_MAX).then(|| last.split_off(start));
        self.0.push(last);
        self.0.extend(moved.map(|text| text[1..].to_owned()));
    }

    /// Appends the notices of another commit.
    pub(super) fn append(&mut self, other: Self) {
        for text in other.0 {
            match self.0.last_mut() {
                Some(last) if last.len() + text.len() + 3 <= NOTIFICATION_BYTES_MAX => {
                    last.push(',');
                    last.push_str(&text);
                }
                _ => self.0.push(text),
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the size in memory.
    pub(super) fn len_bytes(&self) -> usize {
        self.0.iter().map(String::capacity).sum()
    }

    /// Returns the texts to broadcast.
    pub(super) fn into_texts(self) -> Vec<String> {
        self.0.into_iter().map(|contents| format!("[{contents}]")).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    fn notice<'a>(event_id: &'a str, session_id: &'a str) -> NoticeFields<'a> {
        NoticeFields {
            kind: NoticeKind::Delivered,
            at: "2026-01-01T00:00:00.000000Z",
            attempts: 1,
            event_id: Some(event_id),
            webhook_id: None,
            session_id: Some(session_id),
            payment_request_id: None,
            endpoint: None,
        }
    }

    /// The ids in all texts, in order.
    fn ids(texts: &[String]) -> Vec<String> {
        let parse = |text: &String| serde_json::from_str::<Vec<Value>>(text).expect("a text is a JSON array");
        let id = |notice: Value| notice["webhook_delivery_id"].as_str().expect("an id").to_owned();
        texts.iter().flat_map(parse).map(id).collect()
    }

    proptest! {
        #[test]
        fn notices_of_several_commits_keep_their_order_in_short_texts(
            commits in prop::collection::vec(prop::collection::vec("[\\PC\"\\\\]{0,256}", 0..60), 0..6)
        ) {
            let (mut all, mut expected) = (Notifications::default(), Vec::new());
            for (commit, references) in commits.iter().enumerate() {
                let mut notices = Notifications::default();
                for (n, reference) in references.iter().enumerate() {
                    let id = format!("{commit}-{n}");
                    notices.push(&notice(&id, reference));
                    expected.push(id);
                }
                all.append(notices);
            }
            let texts = all.into_texts();
            prop_assert!(texts.iter().all(|text| text.len() <= NOTIFICATION_BYTES_MAX));
            prop_assert_eq!(ids(&texts), expected);
        }
    }

    #[test]
    fn notices_share_a_text_while_they_fit() {
        let mut notices = Notifications::default();
        for _ in 0..60 {
            notices.push(&notice("msg_0123456789abcdef0123456789abcdef", "session"));
        }
        let texts = notices.into_texts();
        let bytes: usize = texts.iter().map(String::len).sum();
        assert_eq!(texts.len(), bytes.div_ceil(NOTIFICATION_BYTES_MAX));
    }
}
