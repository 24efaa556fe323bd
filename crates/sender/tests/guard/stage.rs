//! What the cases are played on: a sender, a resolver that answers as it is told, and canaries that should not be
//! heard from.

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DestinationUrl, Outcome};
use posthaste_engine::Sender as _;
use posthaste_sender::{AllowedNetworks, HttpSender, LookupError, Resolve, SenderOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

#[path = "../support/lease.rs"]
mod lease;

use lease::{PAYLOAD, lease};

/// Only reached by what hangs.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Listens on both loopback addresses under one port. A host without IPv6 has only the first.
pub(crate) struct Canaries {
    pub(crate) port: u16,
    listeners: Vec<TcpListener>,
}

impl Canaries {
    pub(crate) async fn listen() -> Self {
        // The port that is free for one family may be taken for the other.
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

    /// How many connections were made so far. They wait in line, so those before our own came before now.
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

    /// From now on every request is answered with 204; the connection is then kept, or not.
    pub(crate) fn answer(self, keep: bool) -> Answering {
        let connections = Arc::new(AtomicUsize::new(0));
        for listener in self.listeners {
            let connections = Arc::clone(&connections);
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    connections.fetch_add(1, Ordering::SeqCst);
                    tokio::spawn(serve(stream, keep));
                }
            });
        }
        Answering { port: self.port, connections }
    }
}

/// What canaries become for a control.
pub(crate) struct Answering {
    pub(crate) port: u16,
    connections: Arc<AtomicUsize>,
}

impl Answering {
    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve(mut stream: TcpStream, keep: bool) {
    let answer = if keep {
        "HTTP/1.1 204 No Content\r\n\r\n"
    } else {
        "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n"
    };
    let mut request = Vec::new();
    while stream.read_buf(&mut request).await.is_ok_and(|read| read > 0) {
        if request.ends_with(PAYLOAD) {
            request.clear();
            stream.write_all(answer.as_bytes()).await.unwrap();
            if !keep {
                return;
            }
        }
    }
}

/// Gives each name its answers in turn, the last of them for ever; other names are this host.
#[derive(Default)]
pub(crate) struct Script {
    answers: Mutex<BTreeMap<String, VecDeque<Vec<IpAddr>>>>,
    lookups: AtomicUsize,
}

impl Script {
    pub(crate) fn tell(&self, name: &str, answers: impl IntoIterator<Item = Vec<IpAddr>>) {
        self.answers.lock().unwrap().insert(name.to_owned(), answers.into_iter().collect());
    }

    pub(crate) fn lookups(&self) -> usize {
        self.lookups.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Resolve for Script {
    async fn lookup(&self, name: &str) -> Result<Vec<IpAddr>, LookupError> {
        self.lookups.fetch_add(1, Ordering::SeqCst);
        let mut answers = self.answers.lock().unwrap();
        let Some(script) = answers.get_mut(name) else {
            return Ok(vec![Ipv4Addr::LOCALHOST.into()]);
        };
        let answer = if script.len() > 1 { script.pop_front() } else { script.front().cloned() };
        Ok(answer.expect("a script has answers"))
    }
}

/// A sender under the setting `allowed`, that asks `resolver`.
pub(crate) fn sender(allowed: &str, resolver: Arc<dyn Resolve>) -> HttpSender {
    sender_with(allowed, resolver, |_| {})
}

pub(crate) fn sender_with(
    allowed: &str,
    resolver: Arc<dyn Resolve>,
    change: impl FnOnce(&mut SenderOptions),
) -> HttpSender {
    let mut options = SenderOptions::new();
    options.allowed_networks = AllowedNetworks::parse(allowed).unwrap();
    options.resolver = resolver;
    change(&mut options);
    let secret = Secret::from_bytes(vec![7; 32]).unwrap();
    HttpSender::new(options, SigningKeys::new(vec![secret]).unwrap()).unwrap()
}

pub(crate) async fn send(sender: &HttpSender, url: DestinationUrl) -> Outcome {
    sender.send(&lease(url), TIMEOUT).await
}

pub(crate) async fn send_to(sender: &HttpSender, url: &str) -> Outcome {
    send(sender, DestinationUrl::parse(url).unwrap()).await
}

pub(crate) fn addresses(texts: &[&str]) -> Vec<IpAddr> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

/// As in the authority of a URL.
pub(crate) fn host(address: IpAddr) -> String {
    let authority = SocketAddr::new(address, 0).to_string();
    authority.strip_suffix(":0").unwrap().to_owned()
}
