//! The harness of the guard's tests: a sender, a scripted resolver, and canaries that must not be dialled.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DestinationUrl, Outcome};
use posthaste_engine::{Sender as _, SharedProfiles, SharedSigningKeys, host_time};
use posthaste_sender::{AllowedNetworks, HttpSender, LookupError, Resolver, SenderOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[path = "../support/lease.rs"]
mod lease;

use lease::{PAYLOAD, lease};

/// Deadline of attempts, reached only if one hangs.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Listeners on both loopback addresses, on one port. On a host without IPv6 there is only one.
pub(crate) struct Canaries {
    pub(crate) port: u16,
    listeners: Vec<TcpListener>,
}

impl Canaries {
    pub(crate) async fn listen() -> Self {
        // A port that is free for one address family may be in use for the other.
        for _ in 0..20 {
            let v4 = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            let port = v4.local_addr().unwrap().port();
            match TcpListener::bind((Ipv6Addr::LOCALHOST, port)).await {
                Ok(v6) => return Self { port, listeners: vec![v4, v6] },
                Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
                Err(_) => return Self { port, listeners: vec![v4] },
            }
        }
        panic!("no port is free for both families");
    }

    pub(crate) fn has_ipv6(&self) -> bool {
        self.listeners.len() == 2
    }

    /// Returns the number of connections so far. The backlog is in order, so all of them precede one that this opens.
    pub(crate) async fn connections(&self) -> usize {
        let mut count = 0;
        for listener in &self.listeners {
            let own = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
            let own = own.local_addr().unwrap();
            while listener.accept().await.unwrap().1 != own {
                count += 1;
            }
        }
        count
    }

    /// Turns the canaries into a receiver that responds 204 to every request, with or without keep-alive.
    pub(crate) fn respond(self, keep_alive: bool) -> CanaryReceiver {
        let connections = Arc::new(AtomicUsize::new(0));
        for listener in self.listeners {
            let connections = Arc::clone(&connections);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(stream, keep_alive));
                }
            });
        }
        CanaryReceiver { port: self.port, connections }
    }
}

/// A receiver on the canaries' port, for tests that expect a delivery.
pub(crate) struct CanaryReceiver {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
}

impl CanaryReceiver {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, keep_alive: bool) {
    let response = if keep_alive {
        "HTTP/1.1 204 No Content\r\n\r\n"
    } else {
        "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
    };
    let mut request = Vec::new();
    while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
        if request.ends_with(PAYLOAD) {
            request.clear();
            stream.write_all(response.as_bytes()).await.unwrap();
            if !keep_alive {
                return;
            }
        }
    }
}

/// Returns the scripted answers of a name in order, and then its last one. Other names resolve to this host.
#[derive(Default)]
pub(crate) struct ScriptedResolver {
    answers: Mutex<BTreeMap<String, VecDeque<Vec<IpAddr>>>>,
    lookups: AtomicUsize,
}

impl ScriptedResolver {
    pub(crate) fn set_answers(&self, name: &str, answers: impl IntoIterator<Item = Vec<IpAddr>>) {
        self.answers.lock().unwrap().insert(name.to_owned(), answers.into_iter().collect());
    }

    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Resolver for ScriptedResolver {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let Some(scripted) = answers.get_mut(name) else {
            return Ok(vec![Ipv4Addr::LOCALHOST.into()]);
        };
        let answer = if scripted.len() > 1 { scripted.pop_front() } else { scripted.front().cloned() };
        Ok(answer.expect("a scripted name has an answer"))
    }
}

/// Creates a sender with this value of the setting and this resolver.
pub(crate) fn sender(allowed: &str, resolver: Arc<dyn Resolver>) -> HttpSender {
    sender_with_options(allowed, resolver, |_| {})
}

pub(crate) fn sender_with_options(
    allowed: &str,
    resolver: Arc<dyn Resolver>,
    change: impl FnOnce(&mut SenderOptions),
) -> HttpSender {
    let mut options = SenderOptions::new();
    options.allowed_networks = AllowedNetworks::parse(allowed).unwrap();
    options.resolver = resolver;
    change(&mut options);
    let secret = Secret::from_bytes(vec![7; 32]).unwrap();
    let keys = SharedSigningKeys::new(SigningKeys::new(vec![secret]).unwrap());
    HttpSender::new(&options, keys, SharedProfiles::default()).unwrap()
}

pub(crate) async fn send(sender: &HttpSender, url: DestinationUrl) -> Outcome {
    sender.send(&lease(url), host_time(), TIMEOUT).await.expect("this host lacks nothing")
}

pub(crate) async fn send_to(sender: &HttpSender, url: &str) -> Outcome {
    send(sender, DestinationUrl::parse(url).unwrap()).await
}

pub(crate) fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// Formats an address as in the authority of a URL.
pub(crate) fn url_host(address: IpAddr) -> String {
    let authority = SocketAddr::new(address, 0).to_string();
    authority.strip_suffix(":0").unwrap().to_owned()
}
