//! Payloads of events: JSON with a timestamp, padded to a size.

/// Size of a payload unless a part needs another.
pub(crate) const PAYLOAD_BYTES: usize = 512;

const START: &str = "{\"at\":";
const MIDDLE: &str = ",\"pad\":\"";
const END: &str = "\"}";

/// Builds a payload of `bytes` bytes with a timestamp, in microseconds since the Unix epoch. Zero means none.
pub(crate) fn payload(sent_micros: u64, bytes: usize) -> String {
    let mut payload = format!("{START}{sent_micros}{MIDDLE}");
    payload.extend(std::iter::repeat_n('x', bytes.saturating_sub(payload.len() + END.len())));
    payload + END
}

/// Returns the timestamp of a payload; `None` if it has none.
pub(crate) fn timestamp(payload: &[u8]) -> Option<u64> {
    let digits = payload.strip_prefix(START.as_bytes())?;
    let end = digits.iter().position(|byte| !byte.is_ascii_digit())?;
    let timestamp = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    (timestamp > 0).then_some(timestamp)
}

/// Builds the body of a request that enqueues events without timestamp, one for each URL.
pub(crate) fn enqueue_body<'a>(urls: impl Iterator<Item = &'a str>, payload: &str) -> String {
    let mut body = String::from("[");
    for url in urls {
        if body.len() > 1 {
            body.push(',');
        }
        body.push_str(&event(url, payload));
    }
    body + "]"
}

/// Builds one event of a request.
pub(crate) fn event(url: &str, payload: &str) -> String {
    format!("{{\"destination_url\":\"{url}\",\"event_type\":\"invoice.paid\",\"payload\":{payload}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_has_its_size_and_its_timestamp() {
        let text = payload(1_700_000_000_000_000, PAYLOAD_BYTES);
        assert_eq!(text.len(), PAYLOAD_BYTES);
        assert_eq!(timestamp(text.as_bytes()), Some(1_700_000_000_000_000));
        assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        assert_eq!(timestamp(payload(0, 64).as_bytes()), None);
        assert_eq!(timestamp(b"{}"), None);
    }

    #[test]
    fn enqueue_body_is_an_array_of_events() {
        let body = enqueue_body(["http://a/", "http://b/"].into_iter(), &payload(0, 64));
        let body: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(body.as_array().unwrap().len(), 2);
        assert_eq!(body[1]["destination_url"], "http://b/");
    }
}
