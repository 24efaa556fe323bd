//! The egress proxy: its configuration, and the tunnels that it opens to receivers.
//!
//! By default the sender looks up a destination's name, checks its addresses and requests a tunnel to an *address*, so that
//! the guard also applies behind a proxy. The operator can configure a proxy that resolves names itself; then only the
//! proxy can check what they resolve to. The sender does not read the proxy variables of the environment.

mod connect;
#[cfg(test)]
mod scripted;
mod socks5;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;
use std::net::SocketAddr;

use percent_encoding::percent_decode_str;
use posthaste_domain::ErrorClass;
use posthaste_engine::LocalShortage;
use tokio::io::{AsyncRead, AsyncWrite};
use url::{Host, Url};

use crate::failure::Failure;
use crate::resolve::parse_host_name;
use crate::shortage::AttemptError;

/// Upper bound of a user name or password in bytes. It is the limit of SOCKS5, applied to HTTP as well.
const CREDENTIAL_LEN_MAX: usize = 255;
/// Default port of a SOCKS5 proxy.
const SOCKS5_PORT: u16 = 1_080;
/// Error text for a proxy that closed the connection early.
const CLOSED_EARLY: &str = "the egress proxy closed the connection before it responded";

/// The egress proxy that all connections to receivers go through.
#[derive(Clone)]
pub struct Proxy {
    protocol: Protocol,
    /// Whether the proxy receives names instead of addresses.
    resolves_names: bool,
    host: Host<String>,
    port: u16,
    credentials: Option<Credentials>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    /// HTTP `CONNECT`.
    Connect,
    Socks5,
}

#[derive(Clone, PartialEq, Eq)]
struct Credentials {
    user: Vec<u8>,
    password: Vec<u8>,
}

/// Why a proxy URL is refused. The messages never repeat the URL, which may contain a password.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidProxy {
    /// The text is not a URL.
    #[error("the egress proxy is not a URL: {0}; write it as http://host:port or socks5://host:port")]
    Malformed(String),
    /// The scheme is not supported.
    #[error(
        "the egress proxy's scheme is not supported; write http or socks5, or httph or socks5h for a proxy that \
         resolves names itself. TLS to the proxy is not supported"
    )]
    Scheme,
    /// The port is missing or zero.
    #[error("the egress proxy has no port; write it as http://host:port")]
    NoPort,
    /// The URL has a path, a query or a fragment.
    #[error("the egress proxy is a host and a port; remove everything after the port")]
    Path,
    /// The user name or password cannot be sent by the proxy's protocol.
    #[error(
        "the egress proxy's user name and password may be {CREDENTIAL_LEN_MAX} bytes long each; http allows no colon in \
         the user name, and socks5 needs both"
    )]
    Credentials,
}

/// The target of a tunnel through the proxy.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TunnelTarget<'a> {
    /// An address that the guard has permitted.
    Address(SocketAddr),
    /// A name that the proxy resolves and checks itself.
    Name { name: &'a str, port: u16 },
}

/// Why the proxy opened no tunnel.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum TunnelError {
    /// The failure concerns this target. Another address of the receiver may work.
    ThisTarget(Failure),
    /// The proxy would fail in the same way for every target.
    AllTargets(Failure),
    /// This host lacked a resource to reach the proxy.
    Shortage(LocalShortage),
}

impl TunnelError {
    pub(crate) fn applies_to_all_targets(&self) -> bool {
        matches!(self, Self::AllTargets(_) | Self::Shortage(_))
    }
}

impl From<TunnelError> for AttemptError {
    fn from(error: TunnelError) -> Self {
        match error {
            TunnelError::ThisTarget(failure) | TunnelError::AllTargets(failure) => Self::Failed(failure),
            TunnelError::Shortage(shortage) => Self::Shortage(shortage),
        }
    }
}

impl Proxy {
    /// Parses a proxy URL. The proxy receives addresses with `http://` and `socks5://`, and names with `httph://` and
    /// `socks5h://`. A percent-encoded `user:password@` may precede the host.
    pub fn parse(text: &str) -> Result<Self, InvalidProxy> {
        let malformed = |error: url::ParseError| InvalidProxy::Malformed(error.to_string());
        let (scheme, rest) =
            text.split_once("://").ok_or_else(|| malformed(url::ParseError::RelativeUrlWithoutBase))?;
        let (protocol, resolves_names) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Protocol::Connect, false),
            "httph" => (Protocol::Connect, true),
            "socks5" => (Protocol::Socks5, false),
            "socks5h" => (Protocol::Socks5, true),
            _ => return Err(InvalidProxy::Scheme),
        };
        // Parsed under a scheme without a default port: the URL parser would drop `:80` from an http URL.
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
        Ok(Self { protocol, resolves_names, host, port, credentials: Credentials::from_url(&url, protocol)? })
    }

    pub(crate) fn host(&self) -> &Host<String> {
        &self.host
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns whether the proxy receives names instead of addresses, and resolves them itself.
    pub fn resolves_names(&self) -> bool {
        self.resolves_names
    }

    /// Requests a tunnel on an open connection to the proxy. On success, no byte from the tunnel has been read. The caller
    /// bounds the time.
    pub(crate) async fn open_tunnel<S>(
        &self,
        stream: &mut S,
        target: &TunnelTarget<'_>,
    ) -> Result<(), TunnelError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send,
    {
        // Refuses a name with characters that could end a line or a field of the request to the proxy.
        if let TunnelTarget::Name { name, .. } = target
            && let Err(error) = parse_host_name(name)
        {
            return Err(TunnelError::AllTargets(Failure::new(ErrorClass::Dns, error.to_string())));
        }
        match self.protocol {
            Protocol::Connect => connect::open_tunnel(stream, target, self.credentials.as_ref()).await,
            Protocol::Socks5 => socks5::open_tunnel(stream, target, self.credentials.as_ref()).await,
        }
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("protocol", &self.protocol)
            .field("resolves_names", &self.resolves_names)
            .field("host", &self.host)
            .field("port", &self.port)
            .finish_non_exhaustive()
    }
}

impl Credentials {
    fn from_url(url: &Url, protocol: Protocol) -> Result<Option<Self>, InvalidProxy> {
        if url.username().is_empty() && url.password().is_none() {
            return Ok(None);
        }
        let user = percent_decode_str(url.username()).collect::<Vec<_>>();
        let password = percent_decode_str(url.password().unwrap_or_default()).collect::<Vec<_>>();
        let fits = user.len().max(password.len()) <= CREDENTIAL_LEN_MAX;
        let is_sendable = match protocol {
            Protocol::Connect => !user.contains(&b':'),
            Protocol::Socks5 => !user.is_empty() && !password.is_empty(),
        };
        if fits && is_sendable { Ok(Some(Self { user, password })) } else { Err(InvalidProxy::Credentials) }
    }
}

/// A failure that concerns this target only.
fn target_error(detail: impl Into<String>) -> TunnelError {
    TunnelError::ThisTarget(Failure::new(ErrorClass::Connect, detail))
}

/// A failure for every target: the proxy refuses this client, or is not a proxy of the configured kind.
fn proxy_error(detail: impl Into<String>) -> TunnelError {
    TunnelError::AllTargets(Failure::new(ErrorClass::Connect, detail))
}

fn io_error(error: &io::Error) -> TunnelError {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => target_error(CLOSED_EARLY),
        kind => target_error(format!("the connection to the egress proxy broke: {kind}")),
    }
}
