//! Where an event goes: an absolute `http` or `https` URL, judged once when the event is accepted.

use std::fmt;

use url::{Host, Url};

/// Longest accepted URL, in bytes.
const URL_LEN_MAX: usize = 2_048;

/// A URL that may be dialled. Which *addresses* may be dialled is the sender's business at connect time.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DestinationUrl(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDestination {
    #[error("destination_url is {0} bytes long in its encoded form; at most {URL_LEN_MAX} are accepted")]
    TooLong(usize),
    #[error("destination_url is not an absolute URL: {0}; write it as https://host/path")]
    Malformed(String),
    #[error("destination_url has the scheme {0:?}; only http and https are delivered to")]
    Scheme(String),
    #[error("destination_url carries a user name or password; credentials are not sent, remove them")]
    Userinfo,
    #[error("destination_url has a fragment, which is never sent; remove everything from # on")]
    Fragment,
    #[error(
        "destination_url has a host that no receiver can have: {0:?}; a name is made of letters, digits, - and _, \
         with single full stops between"
    )]
    Host(String),
}

impl DestinationUrl {
    /// Accepts what the sender could dial, in its normal form, so that one receiver is one destination
    /// however its URL was spelled.
    pub fn parse(text: &str) -> Result<Self, InvalidDestination> {
        judge(text).map(|url| Self(url.into()))
    }

    /// As a store kept it: it was judged when its event was accepted, and the sender looks again before it dials.
    pub fn stored(text: String) -> Self {
        Self(text)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// What is to be dialled, judged again: a store may hold what was never accepted here.
    pub fn to_url(&self) -> Result<Url, InvalidDestination> {
        judge(&self.0)
    }
}

fn judge(text: &str) -> Result<Url, InvalidDestination> {
    if text.len() > URL_LEN_MAX {
        return Err(InvalidDestination::TooLong(text.len()));
    }
    let url = Url::parse(text).map_err(|error| InvalidDestination::Malformed(error.to_string()))?;
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
        && !is_name(name)
    {
        return Err(InvalidDestination::Host(name.chars().take(64).collect()));
    }
    // Percent-encoding may have made it longer than what was given.
    match url.as_str().len() {
        len if len > URL_LEN_MAX => Err(InvalidDestination::TooLong(len)),
        _ => Ok(url),
    }
}

/// URLs allow more in a name than any host is called.
fn is_name(name: &str) -> bool {
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
    fn what_cannot_or_must_not_be_dialled_is_refused_with_the_rule() {
        let rule = |text: &str| DestinationUrl::parse(text).unwrap_err().to_string();
        assert!(rule("ftp://example.com/").contains("only http and https"));
        assert!(rule("file:///etc/passwd").contains("only http and https"));
        assert!(rule("/hook").contains("absolute URL"));
        assert!(rule("https://").contains("absolute URL"));
        assert!(rule("https://user:pass@example.com/").contains("user name"));
        assert!(rule("https://user@example.com/").contains("user name"));
        assert!(rule("https://example.com/#top").contains("fragment"));
        for host in ["\"", "a..b", "..", "$(id)", "a'b", "a,b.example", "*.example"] {
            assert!(rule(&format!("https://{host}/")).contains("no receiver can have"), "{host}");
        }
        assert!(rule(&format!("https://example.com/{}", "a".repeat(2_048))).contains("at most"));
        assert!(rule(&format!("https://example.com/{}", "\u{e9}".repeat(900))).contains("at most"));
    }

    #[test]
    fn hosts_that_are_called_like_a_host_are_accepted() {
        for host in
            ["localhost", "b\u{fc}cher.example", "_hook.a-b.example", "example.com.", "127.0.0.1", "[::1]"]
        {
            DestinationUrl::parse(&format!("https://{host}/hook")).unwrap();
        }
    }

    #[test]
    fn an_error_never_repeats_a_password() {
        let error = DestinationUrl::parse("https://user:hunter2@example.com/").unwrap_err();
        assert!(!error.to_string().contains("hunter2"));
    }
}
