//! Custom headers: what an endpoint's owner adds to every request to it.

use std::collections::BTreeMap;

/// Most custom headers of an endpoint.
const HEADERS_MAX: usize = 50;
/// Longest name of a header, in bytes.
const NAME_LEN_MAX: usize = 128;
/// Longest value of a header, in bytes.
const VALUE_LEN_MAX: usize = 4_096;

/// Headers that the request itself, the connection or the signature needs.
const RESERVED_NAMES: [&str; 18] = [
    "accept-encoding",
    "connection",
    "content-length",
    "content-type",
    "date",
    "expect",
    "forwarded",
    "host",
    "idempotency-key",
    "keep-alive",
    "te",
    "traceparent",
    "tracestate",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "via",
];
const RESERVED_PREFIXES: [&str; 5] = ["posthaste-", "proxy-", "sec-", "svix-", "webhook-"];
/// Parts of names whose values are shown to no caller.
const SENSITIVE_PARTS: [&str; 6] = ["auth", "cookie", "key", "password", "secret", "token"];

/// The custom headers of an endpoint, in the order of their names. Names keep their letter case and are unique whatever their
/// case. `Debug` shows no value.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct CustomHeaders(BTreeMap<String, CustomHeader>);

/// A header with its name as its owner wrote it.
#[derive(Clone, PartialEq, Eq)]
struct CustomHeader {
    name: String,
    value: String,
}

/// Why custom headers were refused. Messages show no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidHeaders {
    #[error("{0:?} is not the name of a header: use 1 to {NAME_LEN_MAX} letters, digits and hyphens")]
    Name(String),
    #[error("the header {0} is reserved, because the request sets it itself")]
    Reserved(String),
    #[error("the value of the header {0} must be at most {VALUE_LEN_MAX} printable ASCII characters")]
    Value(String),
    #[error("there are {0} headers; at most {HEADERS_MAX} are accepted")]
    TooMany(usize),
    #[error("the stored headers cannot be read")]
    Unreadable,
}

impl CustomHeaders {
    /// Validates headers. Of two names that differ only in case, the later one counts.
    pub fn new(headers: impl IntoIterator<Item = (String, String)>) -> Result<Self, InvalidHeaders> {
        Self::default().merge(headers.into_iter().map(|(name, value)| (name, Some(value))))
    }

    /// Adds, replaces and removes headers. A header without a value is removed.
    pub fn merge(
        mut self,
        changes: impl IntoIterator<Item = (String, Option<String>)>,
    ) -> Result<Self, InvalidHeaders> {
        for (name, value) in changes {
            let folded = name.to_ascii_lowercase();
            match value {
                None => drop(self.0.remove(&folded)),
                Some(value) => {
                    validate(&name, &folded, &value)?;
                    self.0.insert(folded, CustomHeader { name, value });
                }
            }
        }
        match self.0.len() {
            count if count > HEADERS_MAX => Err(InvalidHeaders::TooMany(count)),
            _ => Ok(self),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Names and values, in the order of the lower-case names.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.values().map(|header| (header.name.as_str(), header.value.as_str()))
    }

    /// Returns whether the value of a header may be shown to no caller, because it may be a credential.
    pub fn is_sensitive(name: &str) -> bool {
        let folded = name.to_ascii_lowercase();
        SENSITIVE_PARTS.iter().any(|part| folded.contains(part))
    }

    /// Returns the headers as bytes, to be sealed: a line `name: value` for each.
    pub fn encode(&self) -> Vec<u8> {
        let lines: Vec<String> = self.iter().map(|(name, value)| format!("{name}: {value}\n")).collect();
        lines.concat().into_bytes()
    }

    /// Reads what [`encode`](Self::encode) returned.
    pub fn decode(bytes: &[u8]) -> Result<Self, InvalidHeaders> {
        let text = std::str::from_utf8(bytes).map_err(|_| InvalidHeaders::Unreadable)?;
        let pairs = text.lines().map(|line| line.split_once(": ").ok_or(InvalidHeaders::Unreadable));
        let pairs = pairs.collect::<Result<Vec<_>, _>>()?;
        Self::new(pairs.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())))
    }
}

/// Checks a name and a value. A name of letters, digits, hyphens and underscores is a valid header everywhere.
fn validate(name: &str, folded: &str, value: &str) -> Result<(), InvalidHeaders> {
    let is_name_byte = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    if !(1..=NAME_LEN_MAX).contains(&name.len()) || !name.bytes().all(is_name_byte) {
        return Err(InvalidHeaders::Name(name.chars().take(64).collect()));
    }
    let is_reserved =
        RESERVED_NAMES.contains(&folded) || RESERVED_PREFIXES.iter().any(|prefix| folded.starts_with(prefix));
    if is_reserved {
        return Err(InvalidHeaders::Reserved(name.to_owned()));
    }
    let is_printable = value.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
    if value.len() > VALUE_LEN_MAX || !is_printable || value.trim().len() != value.len() {
        return Err(InvalidHeaders::Value(name.to_owned()));
    }
    Ok(())
}

impl std::fmt::Debug for CustomHeaders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.values().map(|header| &header.name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, &str)]) -> Result<CustomHeaders, InvalidHeaders> {
        CustomHeaders::new(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())))
    }

    #[test]
    fn names_keep_their_case_and_are_unique_without_it() {
        let merged = headers(&[("X-Team", "a"), ("x-region", "eu")]).unwrap();
        let changes = [("x-team".to_owned(), Some("b".to_owned())), ("X-REGION".to_owned(), None)];
        let merged = merged.merge(changes).unwrap();
        assert_eq!(merged.iter().collect::<Vec<_>>(), [("x-team", "b")]);
    }

    #[test]
    fn reserved_names_and_values_that_could_split_a_request_are_refused() {
        for name in ["Host", "Webhook-Id", "svix-signature", "Content-Length", "Posthaste-Attempt", "Proxy-X"]
        {
            assert_eq!(headers(&[(name, "x")]), Err(InvalidHeaders::Reserved(name.to_owned())));
        }
        for name in ["", "a b", "a:b", "caf\u{e9}", &"n".repeat(129)] {
            assert!(matches!(headers(&[(name, "x")]), Err(InvalidHeaders::Name(_))), "{name}");
        }
        for value in ["a\r\nb", "\0", "caf\u{e9}", " a", &"v".repeat(4_097)] {
            assert_eq!(headers(&[("X-A", value)]), Err(InvalidHeaders::Value("X-A".to_owned())), "{value:?}");
        }
        let many: Vec<(String, String)> = (0..51).map(|n| (format!("x-{n}"), String::new())).collect();
        assert_eq!(CustomHeaders::new(many), Err(InvalidHeaders::TooMany(51)));
    }

    #[test]
    fn credentials_are_sensitive_and_no_value_is_in_debug_output() {
        for name in ["Authorization", "X-Api-Key", "x-auth-token", "Cookie"] {
            assert!(CustomHeaders::is_sensitive(name), "{name}");
        }
        assert!(!CustomHeaders::is_sensitive("X-Region"));
        let shown = format!("{:?}", headers(&[("Authorization", "Bearer hunter2")]).unwrap());
        assert_eq!(shown, r#"{"Authorization"}"#);
    }

    #[test]
    fn encoded_headers_are_read_back() {
        for given in [headers(&[]), headers(&[("X-A", ""), ("x-b", "a: b: c"), ("X-C", "1 2")])] {
            let given = given.unwrap();
            assert_eq!(CustomHeaders::decode(&given.encode()), Ok(given));
        }
        assert_eq!(CustomHeaders::decode(b"no header"), Err(InvalidHeaders::Unreadable));
        assert_eq!(CustomHeaders::decode(&[0xff]), Err(InvalidHeaders::Unreadable));
    }
}
