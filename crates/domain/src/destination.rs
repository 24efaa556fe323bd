//! The URL of a destination: an absolute `http` or `https` URL, validated when an event is accepted.

use std::fmt;

use url::{Host, ParseError, Url};

/// Longest accepted URL, in bytes.
const URL_LEN_MAX: usize = 2_048;

/// The URL to which an event is sent. The sender checks the resolved *address* separately, when it connects.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationUrl(String);

/// Why a destination URL was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDestination {
    #[error("destination_url is {0} bytes long in its encoded form; at most {URL_LEN_MAX} are accepted")]
    TooLong(usize),
    #[error("destination_url is not an absolute URL: {0}; write it as https://host/path")]
    NotAbsolute(String),
    #[error("destination_url has a port that is not a number from 0 to 65535")]
    Port,
    #[error("destination_url is not a valid URL: {0}; write it as https://host/path")]
    Malformed(String),
    #[error("destination_url has the scheme {0:?}; only http and https are delivered to")]
    Scheme(String),
    #[error("destination_url carries a user name or password; credentials are not sent, remove them")]
    Userinfo,
    #[error("destination_url has a fragment, which is never sent; remove everything from # on")]
    Fragment,
    #[error(
        "destination_url has an invalid host name: {0:?}; a host name has letters, digits, - and _, separated by single \
         full stops"
    )]
    Host(String),
}

impl DestinationUrl {
    /// Validates and normalizes a URL, so that two spellings of one URL are one destination.
    pub fn parse(text: &str) -> Result<Self, InvalidDestination> {
        parse_and_validate(text).map(|url| Self(url.into()))
    }

    /// Wraps a URL read from a store without validating it. The sender validates it with [`to_url`](Self::to_url).
    pub fn from_stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns the host, with the port if it is not that of the scheme. Logs name a destination by it, because the rest of
    /// the URL may hold a secret. Empty if another program has stored a URL that is not valid.
    pub fn host(&self) -> String {
        let Ok(url) = Url::parse(&self.0) else { return String::new() };
        let host = url.host_str().unwrap_or_default();
        url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
    }

    /// Returns the host in the sense of a connection: scheme, name and port, as the URL begins. Destinations with the same
    /// origin share connections. The whole text if another program has stored a URL that is not valid.
    pub fn origin(&self) -> &str {
        origin_of(&self.0)
    }

    /// Validates the URL again before the sender connects, because other programs may have written to the store.
    pub fn to_url(&self) -> Result<Url, InvalidDestination> {
        parse_and_validate(&self.0)
    }
}

/// Returns the part of a normalized URL before its path or query.
fn origin_of(url: &str) -> &str {
    let after_scheme = url.find("://").map_or(0, |at| at + 3);
    let end = url[after_scheme..].find(['/', '?', '#']).map_or(url.len(), |at| after_scheme + at);
    &url[..end]
}

fn parse_and_validate(text: &str) -> Result<Url, InvalidDestination> {
    if text.len() > URL_LEN_MAX {
        return Err(InvalidDestination::TooLong(text.len()));
    }
    let url = Url::parse(text).map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase | ParseError::EmptyHost => {
            InvalidDestination::NotAbsolute(error.to_string())
        }
        ParseError::InvalidPort => InvalidDestination::Port,
        error => InvalidDestination::Malformed(error.to_string()),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(InvalidDestination::Scheme(url.scheme().to_owned()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(InvalidDestination::Userinfo);
    }
    if url.fragment().is_some() {
        return Err(InvalidDestination::Fragment);
    }
    if let Some(Host::Domain(name)) = url.host()
        && !is_host_name(name)
    {
        return Err(InvalidDestination::Host(name.chars().take(64).collect()));
    }
    // Percent-encoding may have made the URL longer than the text.
    match url.as_str().len() {
        len if len > URL_LEN_MAX => Err(InvalidDestination::TooLong(len)),
        _ => Ok(url),
    }
}

/// Checks that a name has only the characters of a host name; the URL syntax permits more.
fn is_host_name(name: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty() && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
    };
    name.strip_suffix('.').unwrap_or(name).split('.').all(is_label)
}

impl fmt::Display for DestinationUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_receiver_is_one_destination_however_it_is_spelled() {
        let plain = DestinationUrl::parse("https://example.com/hook").unwrap();
        assert_eq!(DestinationUrl::parse("HTTPS://EXAMPLE.com:443/hook").unwrap(), plain);
        assert_eq!(DestinationUrl::parse("https://example.com/a/../hook").unwrap(), plain);
    }

    #[test]
    fn origin_ends_before_the_path_and_names_the_port() {
        let origin = |text: &str| DestinationUrl::parse(text).unwrap().origin().to_owned();
        assert_eq!(origin("https://Example.com/a/b?c"), "https://example.com");
        assert_eq!(origin("http://example.com:8080/"), "http://example.com:8080");
        assert_eq!(origin("http://[::1]:81/x"), "http://[::1]:81");
        assert_ne!(origin("http://example.com/"), origin("https://example.com/"));
        assert_eq!(DestinationUrl::from_stored("no url".to_owned()).origin(), "no url");
    }

    #[test]
    fn invalid_url_is_refused_with_the_rule_it_breaks() {
        let rule = |text: &str| DestinationUrl::parse(text).unwrap_err().to_string();
        assert!(rule("ftp://example.com/").contains("only http and https"));
        assert!(rule("file:///etc/passwd").contains("only http and https"));
        assert!(rule("/hook").contains("absolute URL"));
        assert!(rule("https://").contains("absolute URL"));
        assert!(rule("https://example.com:70000/").contains("a port that is not a number"));
        assert!(rule("https://[::1/").contains("not a valid URL"));
        assert!(rule("https://user:pass@example.com/").contains("user name"));
        assert!(rule("https://user@example.com/").contains("user name"));
        assert!(rule("https://example.com/#top").contains("fragment"));
        for host in ["\"", "a..b", "..", "$(id)", "a'b", "a,b.example", "*.example"] {
            assert!(rule(&format!("https://{host}/")).contains("invalid host name"), "{host}");
        }
        assert!(rule(&format!("https://example.com/{}", "a".repeat(2_048))).contains("at most"));
        assert!(rule(&format!("https://example.com/{}", "\u{e9}".repeat(900))).contains("at most"));
    }

    #[test]
    fn valid_host_names_and_addresses_are_accepted() {
        for host in
            ["localhost", "b\u{fc}cher.example", "_hook.a-b.example", "example.com.", "127.0.0.1", "[::1]"]
        {
            DestinationUrl::parse(&format!("https://{host}/hook")).unwrap();
        }
    }

    #[test]
    fn host_is_all_that_a_log_shows_of_a_url() {
        let host = |url: &str| DestinationUrl::from_stored(url.to_owned()).host();
        assert_eq!(host("https://hooks.example/t/secret?key=secret"), "hooks.example");
        assert_eq!(host("http://[::1]:8080/"), "[::1]:8080");
        assert_eq!(host("not a URL"), "");
    }

    #[test]
    fn error_text_never_contains_a_password() {
        let error = DestinationUrl::parse("https://user:hunter2@example.com/").unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
