//! A well-behaved receiver: reads each request completely and sends a fixed response.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::Mutex;
use std::time::Duration;

use posthaste_domain::signature::{Secret, SigningKeys};
use posthaste_domain::{DestinationUrl, Lease, Outcome, Timestamp};
use posthaste_engine::{Sender as _, SharedProfiles, SharedSigningKeys, host_time};
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
const ACCEPTED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
pub(crate) const TIMEOUT: Duration = Duration::from_secs(20);

/// A receiver on loopback that records its requests.
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    state: Arc<ReceiverState>,
}

struct ReceiverState {
    requests: Mutex<Vec<ReceivedRequest>>,
    connections: Connections,
    response: String,
}

/// Counts the connections of a receiver.
#[derive(Clone, Default)]
pub(crate) struct Connections(watch::Sender<ConnectionCount>);

#[derive(Default)]
struct ConnectionCount {
    opened: usize,
    open: usize,
}

/// Counts one open connection until it is dropped.
pub(crate) struct OpenConnection(Connections);

impl Connections {
    pub(crate) fn open(&self) -> OpenConnection {
        self.0.send_modify(|count| {
            count.opened += 1;
            count.open += 1;
        });
        OpenConnection(self.clone())
    }

    /// Returns the number of connections opened so far.
    pub(crate) fn opened(&self) -> usize {
        self.0.borrow().opened
    }

    /// Waits until exactly this many connections are open.
    pub(crate) async fn wait_for_open(&self, open: usize) {
        let waiting = async { self.0.subscribe().wait_for(|count| count.open == open).await.map(drop) };
        let in_time = within(TIMEOUT, waiting).await;
        in_time
            .unwrap_or_else(|| panic!("{} connections are open, not {open}", self.0.borrow().open))
            .unwrap();
    }
}

impl Drop for OpenConnection {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| count.open -= 1);
    }
}

/// A request as the receiver read it.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedRequest {
    pub(crate) request_line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl ReceivedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(other, _)| other == name).map(|(_, value)| value.as_str())
    }
}

impl Receiver {
    pub(crate) async fn responding_with(response: impl Into<String>) -> Self {
        Self::listening(Ipv4Addr::LOCALHOST, response).await
    }

    async fn listening(at: Ipv4Addr, response: impl Into<String>) -> Self {
        let listener = TcpListener::bind((at, 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(ReceiverState {
            requests: Mutex::default(),
            connections: Connections::default(),
            response: response.into(),
        });
        let serving_state = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&serving_state)));
            }
        });
        Self { address, state }
    }

    pub(crate) async fn accepting() -> Self {
        Self::responding_with(ACCEPTED).await
    }

    /// Accepts requests on every address of the host, and so on 127.0.0.1, 127.0.0.2 and so on.
    pub(crate) async fn accepting_on_all_loopback_addresses() -> Self {
        Self::listening(Ipv4Addr::UNSPECIFIED, ACCEPTED).await
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hook", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.state.requests.lock().unwrap().clone()
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.state.connections
    }
}

async fn serve(stream: TcpStream, state: Arc<ReceiverState>) {
    let _open = state.connections.open();
    let mut stream = BufReader::new(stream);
    while let Some(request) = read_request(&mut stream).await {
        state.requests.lock().unwrap().push(request);
        if stream.write_all(state.response.as_bytes()).await.is_err() {
            break;
        }
    }
}

async fn read_request(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
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
    let mut request = ReceivedRequest { request_line: lines[0].clone(), headers, body: Vec::new() };
    request.body = vec![0; request.header("content-length").unwrap().parse().unwrap()];
    stream.read_exact(&mut request.body).await.ok()?;
    Some(request)
}

/// Creates a sender that may dial loopback and signs with these secrets.
pub(crate) fn sender(secrets: &[&str], change: impl FnOnce(&mut SenderOptions)) -> HttpSender {
    sender_with_profiles(secrets, SharedProfiles::default(), change)
}

/// Creates a sender that may dial loopback and takes the keys of destinations from `profiles`.
pub(crate) fn sender_with_profiles(
    secrets: &[&str],
    profiles: SharedProfiles,
    change: impl FnOnce(&mut SenderOptions),
) -> HttpSender {
    let mut options = SenderOptions::new();
    options.allowed_networks = AllowedNetworks::loopback();
    change(&mut options);
    HttpSender::new(&options, SharedSigningKeys::new(keys(secrets)), profiles).unwrap()
}

pub(crate) fn keys(secrets: &[&str]) -> SigningKeys {
    SigningKeys::new(secrets.iter().map(|secret| Secret::parse(secret).unwrap()).collect()).unwrap()
}

pub(crate) async fn send(sender: &HttpSender, lease: &Lease) -> Outcome {
    send_at(sender, lease, host_time()).await
}

/// Sends with this time in the signature.
pub(crate) async fn send_at(sender: &HttpSender, lease: &Lease, now: Timestamp) -> Outcome {
    sender.send(lease, now, TIMEOUT).await.expect("this host lacks nothing")
}

pub(crate) fn lease(url: &str) -> Lease {
    lease::lease(DestinationUrl::from_stored(url.to_owned()))
}
