//! Proxies on loopback: one for CONNECT, one for SOCKS5. Each dials what it is asked for, except that it looks every
//! name up as 127.0.0.1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_sender::{HttpSender, LookupError, Proxy, Resolve};
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

/// One of the addresses that a receiver may have, though nobody gets there.
pub(crate) const UNREACHABLE: &str = "127.0.0.2";

pub(crate) const PROTOCOLS: [Protocol; 2] = [Protocol::Connect, Protocol::Socks5];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Conduct {
    Serves,
    WantsLogin,
    /// 403, or "not allowed by the rules".
    Refuses,
    Silent,
    /// Closes the connection as soon as it was asked.
    HangsUp,
    /// Never answers whoever asks for [`UNREACHABLE`], and serves the others.
    HangsForOne,
    /// Says that there is no way to [`UNREACHABLE`], and serves the others.
    RefusesOne,
}

/// What a proxy was asked for, as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Wanted {
    Address(SocketAddr),
    Name(String, u16),
}

pub(crate) struct ProxyServer {
    protocol: Protocol,
    address: SocketAddr,
    seen: Arc<Mutex<Seen>>,
}

#[derive(Debug, Default)]
struct Seen {
    connections: usize,
    wanted: Vec<Wanted>,
}

impl ProxyServer {
    pub(crate) async fn start(protocol: Protocol, conduct: Conduct) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Seen::default()));
        let noting = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                noting.lock().unwrap().connections += 1;
                tokio::spawn(serve(client, protocol, conduct, Arc::clone(&noting)));
            }
        });
        Self { protocol, address, seen }
    }

    /// As it is configured, with `login` such as `user:password` where it has one.
    pub(crate) fn url(&self, login: Option<&str>) -> String {
        self.url_of(login, "")
    }

    /// For names that the proxy is to look up.
    pub(crate) fn url_for_names(&self) -> String {
        self.url_of(None, "h")
    }

    fn url_of(&self, login: Option<&str>, names: &str) -> String {
        let scheme = if self.protocol == Protocol::Connect { "http" } else { "socks5" };
        let login = login.map_or_else(String::new, |login| format!("{login}@"));
        format!("{scheme}{names}://{login}{}", self.address)
    }

    pub(crate) fn connections(&self) -> usize {
        self.seen.lock().unwrap().connections
    }

    pub(crate) fn wanted(&self) -> Vec<Wanted> {
        self.seen.lock().unwrap().wanted.clone()
    }
}

/// A sender that leaves through the proxy and looks names up as these addresses.
pub(crate) fn sending_through(proxy: &str, names: &[&str]) -> HttpSender {
    sender(&[SECRET], |options| {
        options.proxy = Some(Proxy::parse(proxy).unwrap());
        options.resolver = Arc::new(Names(names.iter().map(|name| name.parse().unwrap()).collect()));
    })
}

/// Every name has these addresses; without any, no name may be looked up.
struct Names(Vec<IpAddr>);

#[async_trait]
impl Resolve for Names {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        assert!(!self.0.is_empty(), "{name} is not to be looked up here");
        Ok(self.0.clone())
    }
}

async fn serve(
    mut client: TcpStream,
    protocol: Protocol,
    conduct: Conduct,
    seen: Arc<Mutex<Seen>>,
) -> Option<()> {
    if conduct == Conduct::Silent {
        return silent(client).await;
    }
    let wanted = match protocol {
        Protocol::Connect => accept_connect(&mut client, conduct).await?,
        Protocol::Socks5 => accept_socks5(&mut client, conduct).await?,
    };
    seen.lock().unwrap().wanted.push(wanted.clone());
    let gets_there = !matches!(wanted, Wanted::Address(address) if address.ip().to_string() == UNREACHABLE);
    let refusal: &[u8] = match (conduct, protocol) {
        (Conduct::HangsUp, _) => return None,
        (Conduct::HangsForOne, _) if !gets_there => return silent(client).await,
        (Conduct::Refuses, Protocol::Connect) => b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n",
        (Conduct::Refuses, Protocol::Socks5) => &[5, 2, 0, 1, 0, 0, 0, 0, 0, 0],
        (Conduct::RefusesOne, Protocol::Connect) if !gets_there => b"HTTP/1.1 502 Bad Gateway\r\n\r\n",
        (Conduct::RefusesOne, Protocol::Socks5) if !gets_there => &[5, 4, 0, 1, 0, 0, 0, 0, 0, 0],
        _ => b"",
    };
    if !refusal.is_empty() {
        return client.write_all(refusal).await.ok();
    }
    let address = match wanted {
        Wanted::Address(address) => address,
        Wanted::Name(_, port) => SocketAddr::from((Ipv4Addr::LOCALHOST, port)),
    };
    let mut receiver = TcpStream::connect(address).await.unwrap();
    let granted: &[u8] = match protocol {
        Protocol::Connect => b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n",
        Protocol::Socks5 => &[5, 0, 0, 1, 127, 0, 0, 1, 0, 80],
    };
    client.write_all(granted).await.ok()?;
    copy_bidirectional(&mut client, &mut receiver).await.ok().map(drop)
}

/// Until the client has gone.
async fn silent(mut client: TcpStream) -> Option<()> {
    while client.read_u8().await.is_ok() {}
    None
}

async fn accept_connect(client: &mut TcpStream, conduct: Conduct) -> Option<Wanted> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).unwrap();
    let authority = head.strip_prefix("CONNECT ").unwrap().split(' ').next().unwrap();
    assert!(head.contains(&format!("\r\nHost: {authority}\r\n")), "{head}");
    let login = format!("\r\nProxy-Authorization: {LOGIN_BASIC}\r\n");
    if conduct == Conduct::WantsLogin && !head.contains(&login) {
        let answer = b"HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\n\r\n";
        client.write_all(answer).await.ok()?;
        return None;
    }
    Some(authority.parse().map_or_else(
        |_| {
            let (name, port) = authority.rsplit_once(':').unwrap();
            Wanted::Name(name.to_owned(), port.parse().unwrap())
        },
        Wanted::Address,
    ))
}

async fn accept_socks5(client: &mut TcpStream, conduct: Conduct) -> Option<Wanted> {
    let [version, methods] = read(client).await?;
    let mut offered = vec![0; usize::from(methods)];
    client.read_exact(&mut offered).await.ok()?;
    assert_eq!(version, 5);
    if conduct == Conduct::WantsLogin {
        let method = if offered.contains(&2) { 2 } else { 0xff };
        client.write_all(&[5, method]).await.ok()?;
        let login = read::<{ LOGIN_SOCKS5.len() }>(client).await?;
        let accepted = login == *LOGIN_SOCKS5;
        client.write_all(&[1, u8::from(!accepted)]).await.ok()?;
    } else {
        client.write_all(&[5, 0]).await.ok()?;
    }
    let [5, 1, 0, address_type] = read(client).await? else { panic!("this is no request to connect") };
    match address_type {
        1 => Some(Wanted::Address(
            (Ipv4Addr::from(read::<4>(client).await?), client.read_u16().await.ok()?).into(),
        )),
        4 => Some(Wanted::Address(
            (Ipv6Addr::from(read::<16>(client).await?), client.read_u16().await.ok()?).into(),
        )),
        _ => {
            let mut name = vec![0; usize::from(client.read_u8().await.ok()?)];
            client.read_exact(&mut name).await.ok()?;
            Some(Wanted::Name(String::from_utf8(name).unwrap(), client.read_u16().await.ok()?))
        }
    }
}

async fn read<const LEN: usize>(client: &mut TcpStream) -> Option<[u8; LEN]> {
    let mut bytes = [0; LEN];
    client.read_exact(&mut bytes).await.ok()?;
    Some(bytes)
}

/// Fails where something takes longer than it may.
#[expect(clippy::disallowed_methods, reason = "real sockets are waited for in real time")]
pub(crate) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(limit, future).await.expect("it takes too long")
}
