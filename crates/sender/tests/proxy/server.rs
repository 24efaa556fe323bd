//! Proxies on loopback for CONNECT and SOCKS5. They dial the requested address, and resolve every name to 127.0.0.1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_sender::{HttpSender, LookupError, Proxy, Resolver};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use crate::receiver::{SECRET, sender};

pub(crate) const LOGIN: &str = "user:p%40ss";
const LOGIN_BASIC: &str = "Basic dXNlcjpwQHNz";
const LOGIN_SOCKS5: &[u8] = b"\x01\x04user\x04p@ss";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Connect,
    Socks5,
}

/// An address that the proxy cannot reach.
pub(crate) const UNREACHABLE: &str = "127.0.0.2";

pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Connect, Protocol::Socks5];

/// How a proxy behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProxyBehaviour {
    Serves,
    RequiresLogin,
    /// Responds 403, or "not allowed by the rules".
    Refuses,
    Silent,
    /// Closes the connection after the request.
    Closes,
    /// Never responds to a request for [`UNREACHABLE`], and serves others.
    HangsForUnreachable,
    /// Refuses a request for [`UNREACHABLE`], and serves others.
    RefusesUnreachable,
}

/// The target of a request to the proxy, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RequestedTarget {
    Address(SocketAddr),
    Name(String, u16),
}

pub(crate) struct ProxyServer {
    protocol: Protocol,
    address: SocketAddr,
    log: Arc<Mutex<ProxyLog>>,
}

#[derive(Debug, Default)]
struct ProxyLog {
    connections: usize,
    requested: Vec<RequestedTarget>,
}

impl ProxyServer {
    pub(crate) async fn start(protocol: Protocol, behaviour: ProxyBehaviour) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let log = Arc::new(Mutex::new(ProxyLog::default()));
        let server_log = Arc::clone(&log);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                server_log.lock().unwrap().connections += 1;
                tokio::spawn(serve(client, protocol, behaviour, Arc::clone(&server_log)));
            }
        });
        Self { protocol, address, log }
    }

    /// Returns the URL for the configuration, with a `login` such as `user:password` if given.
    pub(crate) fn url(&self, login: Option<&str>) -> String {
        self.build_url(login, "")
    }

    /// Returns the URL of a proxy that resolves names itself.
    pub(crate) fn url_for_names(&self) -> String {
        self.build_url(None, "h")
    }

    fn build_url(&self, login: Option<&str>, scheme_suffix: &str) -> String {
        let scheme = if self.protocol == Protocol::Connect { "http" } else { "socks5" };
        let login = login.map_or_else(String::new, |login| format!("{login}@"));
        format!("{scheme}{scheme_suffix}://{login}{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.log.lock().unwrap().connections
    }

    pub(crate) fn requested(&self) -> Vec<RequestedTarget> {
        self.log.lock().unwrap().requested.clone()
    }
}

/// Creates a sender that uses the proxy and resolves every name to these addresses.
pub(crate) fn sender_through(proxy: &str, addresses: &[&str]) -> HttpSender {
    sender(&[SECRET], |options| {
        options.proxy = Some(Proxy::parse(proxy).unwrap());
        options.resolver =
            Arc::new(FixedResolver(addresses.iter().map(|address| address.parse().unwrap()).collect()));
    })
}

/// Resolves every name to these addresses. Panics on a lookup if there are none.
struct FixedResolver(Vec<IpAddr>);

#[async_trait]
impl Resolver for FixedResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        assert!(!self.0.is_empty(), "the sender must not look up {name}");
        Ok(self.0.clone())
    }
}

async fn serve(
    mut client: TcpStream,
    protocol: Protocol,
    behaviour: ProxyBehaviour,
    log: Arc<Mutex<ProxyLog>>,
) -> Option<()> {
    if behaviour == ProxyBehaviour::Silent {
        return stay_silent(client).await;
    }
    let requested = match protocol {
        Protocol::Connect => accept_connect(&mut client, behaviour).await?,
        Protocol::Socks5 => accept_socks5(&mut client, behaviour).await?,
    };
    log.lock().unwrap().requested.push(requested.clone());
    let is_reachable =
        !matches!(requested, RequestedTarget::Address(address) if address.ip().to_string() == UNREACHABLE);
    let refusal: &[u8] = match (behaviour, protocol) {
        (ProxyBehaviour::Closes, _) => return None,
        (ProxyBehaviour::HangsForUnreachable, _) if !is_reachable => return stay_silent(client).await,
        (ProxyBehaviour::Refuses, Protocol::Connect) => {
            b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n"
        }
        (ProxyBehaviour::Refuses, Protocol::Socks5) => &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
        (ProxyBehaviour::RefusesUnreachable, Protocol::Connect) if !is_reachable => {
            b"HTTP/1.1 502 Bad Gateway\r\n\r\n"
        }
        (ProxyBehaviour::RefusesUnreachable, Protocol::Socks5) if !is_reachable => {
            &[5, 4, 0, 1, 0, 0, 0, 0, 0, 0]
        }
        _ => b"",
    };
    if !refusal.is_empty() {
        return client.write_all(refusal).await.ok();
    }
    let address = match requested {
        RequestedTarget::Address(address) => address,
        RequestedTarget::Name(_, port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    };
    let mut receiver = TcpStream::connect(address).await.unwrap();
    let success: &[u8] = match protocol {
        Protocol::Connect => b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n",
        Protocol::Socks5 => &[5, 0, 0, 1, 127, 0, 0, 1, 0, 80],
    };
    client.write_all(success).await.ok()?;
    copy_bidirectional(&mut client, &mut receiver).await.ok().map(drop)
}

/// Reads until the client closes the connection, without responding.
async fn stay_silent(mut client: TcpStream) -> Option<()> {
    while client.read_u8().await.is_ok() {}
    None
}

async fn accept_connect(client: &mut TcpStream, behaviour: ProxyBehaviour) -> Option<RequestedTarget> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let authority = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
    assert!(head.contains(&format!("\r\nHost: {authority}\r\n")), "{head}");
    let login = format!("\r\nProxy-Authorization: {LOGIN_BASIC}\r\n");
    if behaviour == ProxyBehaviour::RequiresLogin && !head.contains(&login) {
        let response = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n";
        client.write_all(response).await.ok()?;
        return None;
    }
    Some(authority.parse().map_or_else(
        |_| {
            let (name, port) = authority.rsplit_once(':').unwrap();
            RequestedTarget::Name(name.to_owned(), port.parse().unwrap())
        },
        RequestedTarget::Address,
    ))
}

async fn accept_socks5(client: &mut TcpStream, behaviour: ProxyBehaviour) -> Option<RequestedTarget> {
    let [version, methods] = read(client).await?;
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered).await.ok()?;
    assert_eq!(version, 5);
    if behaviour == ProxyBehaviour::RequiresLogin {
        let method = if offered.contains(&2) { 2 } else { 0xff };
        client.write_all(&[5, method]).await.ok()?;
        let login = read::<{ LOGIN_SOCKS5.len() }>(client).await?;
        let accepted = login == *LOGIN_SOCKS5;
        client.write_all(&[1, u8::from(!accepted)]).await.ok()?;
    } else {
        client.write_all(&[5, 0]).await.ok()?;
    }
    let [5, 1, 0, address_type] = read(client).await? else { panic!("the request is not a CONNECT command") };
    match address_type {
        1 => Some(RequestedTarget::Address(
            (Ipv4Addr::from(read::<4>(client).await?), client.read_u16().await.ok()?).into(),
        )),
        4 => Some(RequestedTarget::Address(
            (Ipv6Addr::from(read::<16>(client).await?), client.read_u16().await.ok()?).into(),
        )),
        _ => {
            let mut name = vec![0; usize::from(client.read_u8().await.ok()?)];
            client.read_exact(&mut name).await.ok()?;
            Some(RequestedTarget::Name(String::from_utf8(name).unwrap(), client.read_u16().await.ok()?))
        }
    }
}

async fn read<const LEN: usize>(client: &mut TcpStream) -> Option<[u8; LEN]> {
    let mut bytes = [0; LEN];
    client.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

/// Awaits a future and panics if it takes longer than the limit.
#[expect(clippy::disallowed_methods, reason = "real sockets run in real time")]
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.expect("the future did not finish in time")
}
