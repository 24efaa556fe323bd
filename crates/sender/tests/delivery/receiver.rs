//! A receiver that does as it should: it reads each request whole and gives the answer it was told to.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DestinationUrl, Lease, Outcome};
use posthaste_engine::Sender as _;
use posthaste_sender::{AllowedNetworks, HttpSender, SenderOptions};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

#[path = "../support/lease.rs"]
mod lease;
#[path = "../support/within.rs"]
mod within;

use within::within;

pub(crate) const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    seen: Arc<Seen>,
}

struct Seen {
    requests: Mutex<Vec<Received>>,
    connections: Connections,
    answer: String,
}

/// How many connections a receiver has, and had.
#[derive(Clone, Default)]
pub(crate) struct Connections(watch::Sender<Count>);

#[derive(Default)]
struct Count {
    opened: usize,
    open: usize,
}

/// One of them, until it is dropped.
pub(crate) struct Open(Connections);

impl Connections {
    pub(crate) fn open(&self) -> Open {
        self.0.send_modify(|count| {
            count.opened += 1;
            count.open += 1;
        });
        Open(self.clone())
    }

    /// Those that were ever opened.
    pub(crate) fn opened(&self) -> usize {
        self.0.borrow().opened
    }

    /// Returns when so many are open, and no other number.
    pub(crate) async fn become_so_many(&self, open: usize) {
        let become_so = async { self.0.subscribe().wait_for(|count| count.open == open).await.map(drop) };
        let in_time = within(TIMEOUT, become_so).await;
        in_time.unwrap_or_else(|| panic!("{} are open, not {open}", self.0.borrow().open)).unwrap();
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| count.open -= 1);
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Received {
    pub(crate) request_line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Receiver {
    pub(crate) async fn answering(answer: impl Into<String>) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let seen = Arc::new(Seen {
            requests: Mutex::default(),
            connections: Connections::default(),
            answer: answer.into(),
        });
        let serving = Arc::clone(&seen);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&serving)));
            }
        });
        Self { address, seen }
    }

    pub(crate) async fn accepting() -> Self {
        Self::answering("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Received> {
        self.seen.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.seen.connections
    }
}

async fn serve(stream: TcpStream, seen: Arc<Seen>) {
    let _open = seen.connections.open();
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        seen.requests.lock().unwrap().push(request);
        if stream.write_all(seen.answer.as_bytes()).await.is_err() {
            break;
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<Received> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        match line.trim_end_matches("\r\n") {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers: Vec<_> = lines[1..]
        .iter()
        .map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        })
        .collect();
    let mut received = Received { request_line: lines[0].clone(), headers, body: Vec::new() };
    received.body = vec![0; received.header("content-length").unwrap().parse().unwrap()];
    stream.read_exact(&mut received.body).await.ok()?;
    Some(received)
}

/// A sender that may dial loopback, signing with these secrets.
pub(crate) fn sender(secrets: &[&str], change: impl FnOnce(&mut SenderOptions)) -> HttpSender {
    let mut options = SenderOptions::new();
    options.allowed_networks = AllowedNetworks::loopback();
    change(&mut options);
    HttpSender::new(options, keys(secrets)).unwrap()
}

pub(crate) fn keys(secrets: &[&str]) -> SigningKeys {
    SigningKeys::new(secrets.iter().map(|secret| Secret::parse(secret).unwrap()).collect()).unwrap()
}

pub(crate) async fn send(sender: &HttpSender, lease: &Lease) -> Outcome {
    sender.send(lease, TIMEOUT).await
}

pub(crate) fn lease(url: &str) -> Lease {
    lease::lease(DestinationUrl::stored(url.to_owned()))
}
