//! The egress proxy: how it is configured, and how it is asked for a way through.
//!
//! By default a destination's name is looked up and judged here and the proxy is asked for the *address*, so that the
//! guard holds behind a proxy too. A proxy that is to look names up itself has to be chosen as such, since then only
//! the proxy can judge what they resolve to. Environment variables are not read: what is not configured is not used.

mod connect;
#[cfg(test)]
mod scripted;
mod socks5;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use posthaste_domain::ErrorClass;
use tokio::io::{AsyncRead, AsyncWrite};
use url::{Host, Url};

use crate::failure::Failure;
use crate::resolve::qualified;

/// What SOCKS5 can carry; more is of no use to HTTP either.
const CREDENTIAL_LEN_MAX: usize = 255;
const SOCKS5_PORT: u16 = 1_080;

/// Where every request leaves through.
#[derive(Clone)]
pub struct Proxy {
    protocol: Protocol,
    takes_names: bool,
    host: Host<String>,
    port: u16,
    credentials: Option<Credentials>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Connect,
    Socks5,
}

#[derive(Clone, PartialEq, Eq)]
struct Credentials {
    user: Vec<u8>,
    password: Vec<u8>,
}

/// Why a proxy cannot be used. Never repeats what was given, which may hold a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxy {
    #[error("the egress proxy is not a URL: {0}; write it as http://host:port or socks5://host:port")]
    Malformed(String),
    #[error(
        "the egress proxy's scheme is not known; write http or socks5, or httph or socks5h for a proxy that looks \
         names up itself. TLS to the proxy is not spoken"
    )]
    Scheme,
    #[error("the egress proxy has no port; write it as http://host:port")]
    NoPort,
    #[error("the egress proxy is a host and a port; remove everything after the port")]
    Path,
    #[error(
        "the egress proxy's user name and password may be {CREDENTIAL_LEN_MAX} bytes long each; http allows no colon in \
         the user name, and socks5 needs both"
    )]
    Credentials,
}

/// Where a tunnel leads.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TunnelTarget<'a> {
    /// Looked up and judged.
    Address(SocketAddr),
    /// For the proxy to look up, and to judge.
    Name { name: &'a str, port: u16 },
}

/// Why there is no tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoTunnel {
    /// Another address of the receiver may do.
    ToTarget(Failure),
    /// Whatever the proxy is asked for, the answer will be the same.
    ToAnything(Failure),
}

impl NoTunnel {
    pub(crate) fn is_to_anything(&self) -> bool {
        matches!(self, Self::ToAnything(_))
    }
}

impl From<NoTunnel> for Failure {
    fn from(why: NoTunnel) -> Self {
        let (NoTunnel::ToTarget(failure) | NoTunnel::ToAnything(failure)) = why;
        failure
    }
}

impl Proxy {
    /// `http://` and `socks5://` ask for addresses, `httph://` and `socks5h://` for names; each may be followed by
    /// `user:password@`, percent-encoded.
    pub fn parse(text: &str) -> Result<Self, InvalidProxy> {
        let malformed = |error: url::ParseError| InvalidProxy::Malformed(error.to_string());
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| malformed(url::ParseError::RelativeUrlWithoutBase))?;
        let (protocol, takes_names) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Protocol::Connect, false),
            "httph" => (Protocol::Connect, true),
            "socks5" => (Protocol::Socks5, false),
            "socks5h" => (Protocol::Socks5, true),
            _ => return Err(InvalidProxy::Scheme),
        };
        // Under a scheme without a default port, `:80` is told from no port at all.
        let url = Url::parse(&format!("proxy://{rest}")).map_err(malformed)?;
        if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
            return Err(InvalidProxy::Path);
        }
        let host = url.host_str().ok_or_else(|| malformed(url::ParseError::EmptyHost))?;
        let host = Host::parse(host).map_err(malformed)?;
        let port = match (url.port(), protocol) {
            (None, Protocol::Socks5) => SOCKS5_PORT,
            (None | Some(0), _) => return Err(InvalidProxy::NoPort),
            (Some(port), _) => port,
        };
        Ok(Self { protocol, takes_names, host, port, credentials: Credentials::of(&url, protocol)? })
    }

    pub(crate) fn host(&self) -> &Host<String> {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Whether names are given to the proxy unresolved.
    pub fn takes_names(&self) -> bool {
        self.takes_names
    }

    /// Asks an open connection to the proxy for a tunnel. When it is granted, not one byte of what comes through the
    /// tunnel has been read. The caller bounds the time.
    pub(crate) async fn tunnel<S>(&self, stream: &mut S, target: &TunnelTarget<'_>) -> Result<(), NoTunnel>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        // Nothing that could end a line or a field in what is sent to the proxy.
        if let TunnelTarget::Name { name, .. } = target
            && let Err(error) = qualified(name)
        {
            return Err(NoTunnel::ToAnything(Failure::new(ErrorClass::Dns, error.to_string())));
        }
        match self.protocol {
            Protocol::Connect => connect::tunnel(stream, target, self.credentials.as_ref()).await,
            Protocol::Socks5 => socks5::tunnel(stream, target, self.credentials.as_ref()).await,
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("protocol", &self.protocol)
            .field("takes_names", &self.takes_names)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    fn of(url: &Url, protocol: Protocol) -> Result<Option<Self>, InvalidProxy> {
        if url.username().is_empty() && url.password().is_none() {
            return Ok(None);
        }
        let user = percent_decoded(url.username());
        let password = percent_decoded(url.password().unwrap_or_default());
        let fits = user.len().max(password.len()) <= CREDENTIAL_LEN_MAX;
        let sendable = match protocol {
            Protocol::Connect => !user.contains(&b':'),
            Protocol::Socks5 => !user.is_empty() && !password.is_empty(),
        };
        if fits && sendable { Ok(Some(Self { user, password })) } else { Err(InvalidProxy::Credentials) }
    }
}

/// What is not a percent sign and two hexadecimal digits stands for itself.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex_digit(*high).zip(hex_digit(*low)),
            _ => None,
        };
        bytes.push(escaped.map_or(*first, |(high, low)| high << 4 | low));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    bytes
}

fn hex_digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Of this target.
fn refusal(detail: impl Into<String>) -> NoTunnel {
    NoTunnel::ToTarget(Failure::new(ErrorClass::Connect, detail))
}

/// Of us, or by something that is no such proxy.
fn unusable(detail: impl Into<String>) -> NoTunnel {
    NoTunnel::ToAnything(Failure::new(ErrorClass::Connect, detail))
}

fn broken(error: &io::Error) -> NoTunnel {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => refusal("the egress proxy closed the connection before it answered"),
        kind => refusal(format!("the connection to the egress proxy broke: {kind}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Proxy {
        Proxy::parse(text).unwrap()
    }

    #[test]
    fn a_proxy_is_a_scheme_a_host_and_a_port() {
        let proxy = parsed("http://proxy.example:80");
        assert_eq!((proxy.host(), proxy.port()), (&Host::Domain("proxy.example".to_owned()), 80));
        assert_eq!(parsed("SOCKS5://127.0.0.1").host(), &Host::<String>::Ipv4([127, 0, 0, 1].into()));
        assert_eq!(parsed("socks5://[::1]").port(), SOCKS5_PORT);
        assert_eq!(parsed("socks5://proxy.example:9050/").port(), 9_050);
    }

    #[test]
    fn names_are_given_away_by_the_schemes_that_say_so() {
        assert!(!parsed("http://proxy.example:3128").takes_names());
        assert!(!parsed("socks5://proxy.example").takes_names());
        assert!(parsed("httph://proxy.example:3128").takes_names());
        assert!(parsed("socks5h://proxy.example").takes_names());
    }

    #[test]
    fn credentials_are_percent_decoded() {
        let credentials = parsed("http://us%65r:p%40ss%3a%zz@proxy.example:3128").credentials.unwrap();
        assert_eq!(
            (credentials.user.as_slice(), credentials.password.as_slice()),
            (&b"user"[..], &b"p@ss:%zz"[..])
        );
        assert!(parsed("http://proxy.example:3128").credentials.is_none());
        assert!(parsed("http://user@proxy.example:3128").credentials.unwrap().password.is_empty());
    }

    #[test]
    fn what_cannot_be_used_is_refused_with_the_rule() {
        let rule = |text: &str| Proxy::parse(text).unwrap_err().to_string();
        assert!(rule("proxy.example:3128").contains("write it as http://host:port"));
        assert!(rule("http://").contains("not a URL"));
        assert!(rule("http://:3128").contains("not a URL"));
        assert!(rule("http://proxy.example:99999").contains("invalid port"));
        assert!(rule("https://proxy.example:3128").contains("TLS to the proxy"));
        assert!(rule("http://proxy.example").contains("no port"));
        assert!(rule("socks5://proxy.example:0").contains("no port"));
        assert!(rule("http://proxy.example:3128/path").contains("after the port"));
        assert!(rule("http://proxy.example:3128?query").contains("after the port"));
        assert!(rule("http://us%3Aer:pass@proxy.example:3128").contains("colon"));
        assert!(rule("socks5://user@proxy.example").contains("needs both"));
        assert!(rule(&format!("socks5://user:{}@proxy.example", "p".repeat(256))).contains("255 bytes"));
    }

    #[test]
    fn neither_an_error_nor_debug_output_repeats_a_password() {
        let refused = [
            "user:hunter2@proxy.example:3128",
            "hunter2://proxy.example",
            "https://user:hunter2@proxy.example:3128",
            "http://user:hunter2@proxy.example",
            "http://user:hunter2@proxy.example:3128/path",
            "http://user:hunter2@proxy example:3128",
            "http://us%3aer:hunter2@proxy.example:3128",
            "socks5://:hunter2@proxy.example",
        ];
        for text in refused {
            let error = Proxy::parse(text).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
        }
        let shown = format!("{:?}", parsed("http://user:hunter2@proxy.example:3128"));
        assert!(
            shown.contains("proxy.example") && !shown.contains("hunter2") && !shown.contains("user"),
            "{shown}"
        );
    }

    #[tokio::test]
    async fn a_name_that_would_break_the_request_is_not_sent() {
        for proxy in ["httph://proxy.example:3128", "socks5h://proxy.example:1080"] {
            let refused = [
                "",
                "a b",
                "a\r\nb",
                "a\0b",
                "a:1",
                "b\u{fc}cher.example",
                "a..example",
                "127.1",
                &"a".repeat(64),
                &vec!["a".repeat(63); 4].join("."),
            ];
            for name in refused {
                let asked = scripted::ask(proxy, TunnelTarget::Name { name, port: 443 }, b"").await;
                assert_eq!(asked.request, b"", "{name:?}");
                assert!(asked.detail().contains("not a name"), "{name:?}");
            }
        }
    }
}
